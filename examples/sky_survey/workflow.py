"""Sky-survey annotations: astronomers annotate objects, are notified about areas of interest, and reach a consensus.

An astronomer registers areas of the sky and kinds of objects. An annotation within such an area creates a notice for
each interested astronomer, who answers with an opinion. When an object has three opinions within an hour, their
majority becomes a consensus, which is fed back into the workflow as another annotation: interested astronomers are
notified again and may object. The cycle ends when no further opinions arrive.

    cd examples/sky_survey
    tidemill apply && tidemill up       # the page is at http://127.0.0.1:8484
    python simulate.py --seconds 120    # in another terminal: a survey and a dozen astronomers

The page shows the newest rows of the channels `notices` and `consensus` as they arrive. The feedback is declared in
`tidemill.toml`: a delivery from `consensus` to `annotations`.
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

# Match annotations with areas: candidates by the whole degrees of declination of an area, then by distance.

wf.table(
    "zones", "astronomer string, area string, kind string, ra double, dec double, radius double, zone int"
)  # annotations that arrive before the first interest find an empty table
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
"""The angle between two positions in the sky, in degrees."""

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

# Consensus: three opinions on an object within an hour are combined; each opinion is used once.

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
