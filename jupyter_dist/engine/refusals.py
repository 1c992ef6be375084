"""What a rank answers to an order that it cannot read: somebody waits for what comes of it."""

from jupyter_dist.protocol.messages import (
    Answered,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    ErrorInfo,
    NoAnswer,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    ToCoordinator,
)
from jupyter_dist.protocol.unreadable import Unreadable


def refuse(order: Unreadable, rank: int) -> ToCoordinator | None:
    """Return the answer to an unreadable order; None where nobody waits for one."""
    problem, request_id = f"the rank could not read its order: {order}", order.request_id
    match order.parts.kind:
        case "RunCell":
            error = ErrorInfo("WireError", problem, (f"WireError: {problem}",))
            cell_id: str = order.parts.read("cell_id", str, "")
            return CellResult(rank, cell_id, "raised", 0.0, error=error)
        case "StoreObjects":
            return ObjectsStored(rank, request_id, problem)
        case "FetchObject":
            return ObjectFetched(rank, request_id, problem)
        case "Question":
            return Answered(rank, request_id, NoAnswer(problem))
        case "JoinController":
            return ControllerJoined(rank, request_id, problem)
        case "LeaveController":
            return ControllerLeft(rank, request_id, problem)
        case "Welcome" | "Regroup":
            generation: int = order.parts.read("generation", int, -1)
            return NotReady(rank, generation, problem)
    return None
