"""The rewriting passes, in the order in which they run, from a declared query to the statements that execute it.

| stage | rewrites | when |
|---|---|---|
| `sql.reading.TREE_PASSES` | the tree of a query's text, before it becomes operators | when a table is declared |
| `QUERY_PASSES` | the operators of a query | when a table is declared |
| `PROGRAM_PASSES` | the program that `derive` makes of a query's operators | in each run |
| `STEP_PASSES` | the operator of one step or output | when the steps that it reads are computed |
| `STATEMENT_PASSES` | the operator of one statement of Spark | when the statement is written |
| `LOCAL_STATEMENT_PASSES` | the operator of one statement on the driver | when the statement is written |

The stages rewrite different things, so each has a tuple. Within a stage the order matters:

- `narrow_windows` precedes pruning: above a window that has a condition, nothing needs the condition's columns. Both
  precede `derive`, because conditions and columns of a query determine its state.
- `expand_scans` comes first in a run: merging blocks adds operators and columns that can be pruned, and only scans of
  blocks are known to be local. `prune_program` follows, so that a step that is inlined repeatedly is pruned once.
  `inline_steps` precedes `fuse_steps`, which would add columns to a step that then disappears. `fuse_steps` is last,
  because its result has slices of steps, which no other pass rewrites.
- `restrict_joins` adds projections, which `merge_projections` then merges. Spark restricts scans itself (`key_joins`).
"""

from collections.abc import Callable, Collection
from functools import reduce

from tidemill.algebra.operators import Operator
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite.expand_scans import RunContext, expand_scans
from tidemill.algebra.rewrite.fuse_steps import FusedProgram, fuse_steps
from tidemill.algebra.rewrite.inline_steps import inline_steps
from tidemill.algebra.rewrite.merge_projections import merge_projections
from tidemill.algebra.rewrite.narrow_windows import narrow_windows
from tidemill.algebra.rewrite.prune_columns import prune_operator, prune_program
from tidemill.algebra.rewrite.remove_empty_steps import remove_empty_steps
from tidemill.algebra.rewrite.restrict_joins import restrict_joins

OperatorPass = Callable[[Operator], Operator]
ProgramPass = Callable[[Program, RunContext], Program]

QUERY_PASSES: tuple[OperatorPass, ...] = (narrow_windows, prune_operator)
PROGRAM_PASSES: tuple[ProgramPass, ProgramPass, ProgramPass, Callable[[Program, RunContext], FusedProgram]] = (
    expand_scans,
    prune_program,
    inline_steps,
    fuse_steps,
)
STEP_PASSES: tuple[Callable[[Operator, Collection[str]], Operator | None], ...] = (remove_empty_steps,)
STATEMENT_PASSES: tuple[OperatorPass, ...] = (merge_projections,)
LOCAL_STATEMENT_PASSES: tuple[OperatorPass, ...] = (restrict_joins, merge_projections)


def rewrite_query(root: Operator) -> Operator:
    """The operators of a query, as its programs are derived from them."""
    return reduce(lambda op, rewrite: rewrite(op), QUERY_PASSES, root)


def rewrite_program(program: Program, run: RunContext) -> FusedProgram:
    """The program as a run executes it: over blocks, with as few columns and steps as possible."""
    *passes, fuse = PROGRAM_PASSES
    return fuse(reduce(lambda rewritten, rewrite: rewrite(rewritten, run), passes, program), run)


def rewrite_step(op: Operator, empty: Collection[str]) -> Operator | None:
    """The operator of a step or output, given the steps that are empty; None if it has no rows."""
    start: Operator | None = op
    return reduce(lambda rewritten, rewrite: rewritten and rewrite(rewritten, empty), STEP_PASSES, start)


def rewrite_statement(op: Operator) -> Operator:
    """The operator as a statement computes it."""
    return reduce(lambda rewritten, rewrite: rewrite(rewritten), STATEMENT_PASSES, op)


def rewrite_local_statement(op: Operator) -> Operator:
    """The operator as a statement on the driver computes it."""
    return reduce(lambda rewritten, rewrite: rewrite(rewritten), LOCAL_STATEMENT_PASSES, op)
