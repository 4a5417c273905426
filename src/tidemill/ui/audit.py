"""`/audit`: the changes that users have requested, for admins."""

from tidemill.display import columns
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import HtmlText, add_section, run_off_loop
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

MAX_ENTRIES = 200


async def show_audit(context: PageContext) -> None:
    with open_frame(context, "/audit", "Audit log"):
        HtmlText("Audit log", "h1")
        refused = HtmlText("Only admins see the audit log.", "p", "banner")
        with add_section("Newest first", "changes over the API, by the page and by commands") as section:
            table = ValueTable("Audit log", columns.AUDIT, empty="no changes")

        async def refresh_table(_snapshot: ProjectSnapshot, now: float) -> None:
            is_admin = context.get_viewer().can_act(None)
            refused.set_visibility(not is_admin)
            section.set_visibility(is_admin)
            list_entries = context.mill.catalog.accounts.list_audit_entries
            table.show_values(await run_off_loop(list_entries, limit=MAX_ENTRIES) if is_admin else [], now)

        await context.keep_refreshing(refresh_table)
