"""Sky-survey annotations: astronomers mark what they see, are told what concerns them, and come to an agreement.

An astronomer names areas of the sky and kinds of objects. An annotation within such an area is told to whoever is
interested. They say whether they agree; as soon as an object has three opinions within an hour, these are weighed, and
what most of them say goes back into the workflow as an annotation of its own: whoever is interested is told, and may
object. So it goes on until nobody has anything to add.

    cd examples/sky_survey
    tidemill apply && tidemill up       # the page is at http://127.0.0.1:8484
    python simulate.py --seconds 120    # in another terminal: a survey and a dozen astronomers

Look at the channels `notices` and `consensus` on the page: their newest rows are shown as they come. The way back is
in `tidemill.toml`: a delivery from `consensus` to `annotations`.
"""

import tidemill as tm

wf = tm.Workflow("sky_survey")

wf.input(
    "interests",
    "astronomer string, area string, kind string, ra double, dec double, radius double",  # in degrees
    key=("astronomer", "area"),
)
wf.input("annotations", "object string, kind string, ra double, dec double, author string, text string")
wf.input("opinions", "object string, astronomer string, agrees boolean, at timestamp")

# Who is interested in what: areas are found by the degrees of declination that they touch, and then looked at closely.

wf.table(
    "zones", "astronomer string, area string, kind string, ra double, dec double, radius double, zone int"
)  # what comes before anybody is interested finds an empty table
wf.sql(
    "zones",
    """
    SELECT astronomer, area, kind, ra, dec, radius,
           explode(sequence(CAST(floor(dec - radius) AS int), CAST(floor(dec + radius) AS int))) AS zone
    FROM interests
    """,
    triggers=[tm.on("interests")],
)

DISTANCE = """degrees(acos(least(1.0, greatest(-1.0,
    sin(radians(a.dec)) * sin(radians(z.dec)) +
    cos(radians(a.dec)) * cos(radians(z.dec)) * cos(radians(a.ra - z.ra))))))"""
"""Between two places in the sky, in degrees."""

wf.sql(
    "notices",
    f"""
    SELECT DISTINCT z.astronomer, a.object, a.kind, a.author, a.text
    FROM annotations a JOIN zones z ON z.zone = CAST(floor(a.dec) AS int) AND z.kind = a.kind
    WHERE {DISTANCE} <= z.radius AND z.astronomer <> a.author
    """,
    modes={"annotations": tm.New, "zones": tm.All},
    writes=tm.Delta,
    triggers=[tm.on("annotations")],
)

# What they say of it: three opinions on an object within an hour are weighed, and each counts once.

wf.window(
    "heard",
    "opinions",
    "1 hour",
    by=["object"],
    time="at",
    at_least=3,
    delete_used=True,
    triggers=[tm.on("opinions")],
)

wf.table("places", "object string, kind string, ra double, dec double")
wf.sql(
    "places",
    "SELECT object, max(kind) AS kind, max(ra) AS ra, max(dec) AS dec FROM annotations GROUP BY object",
    triggers=[tm.on("annotations")],
)

wf.sql(
    "consensus",
    """
    SELECT p.object, p.kind, p.ra, p.dec, 'consensus' AS author,
           concat(if(avg(if(h.agrees, 1, 0)) > 0.5, 'confirmed', 'doubted'), ' by ', count(*)) AS text
    FROM heard h JOIN places p ON p.object = h.object
    GROUP BY p.object, p.kind, p.ra, p.dec, h._window
    """,
    modes={"heard": tm.New, "places": tm.All},
    writes=tm.Delta,
    triggers=[tm.on("heard")],
)
