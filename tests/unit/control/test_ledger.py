"""Ledgers of two peers whose connection breaks: nothing is lost, doubled, or out of order."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.control.ledger import CONFIRM_AFTER, CONFIRM_BYTES, Ledger, Sign, read_stamp
from jupyter_dist.protocol.codec import VERSION


class Line:
    """One direction of a connection, in which a break loses some of what is under way."""

    def __init__(self, taker=None):
        """Without a taker it is who begins with what comes first, as a router does."""
        self.under_way = []
        self.taker = taker
        self.arrived = []

    def carry(self):
        if self.under_way:
            frames = self.under_way.pop(0)
            if self.taker is None:
                self.taker = Ledger.begin_at(read_stamp(frames[0]))
            is_new, sign = self.taker.take(read_stamp(frames[0]))
            if is_new:
                self.arrived.append(frames[1])
            return sign
        return None


plans = st.lists(
    st.one_of(
        st.sampled_from(["ask", "answer", "there", "back"]),
        st.tuples(st.just("break"), st.integers(0, 5), st.integers(0, 5)),
    ),
    max_size=80,
)


def resume(there, engine):
    there.under_way.append(engine.word(Sign.RESUMES))
    there.under_way.extend(engine.unacknowledged())


def carry_there(there, back):
    if there.carry() is Sign.RESUMES:
        back.under_way.extend(there.taker.unacknowledged())


def carry_all(there, back):
    while there.under_way:
        carry_there(there, back)
    while back.under_way:
        back.carry()


@given(plans)
def test_whatever_breaks_each_message_arrives_once_and_in_order(plan):
    engine = Ledger()
    there, back = Line(), Line(engine)
    asked, answered = [], []
    for step in plan:
        if step == "ask":
            asked.append(b"ask %d" % len(asked))
            there.under_way.append(engine.enter([VERSION, asked[-1]]))
        elif step == "answer":
            if there.taker is not None:  # who was never heard has nothing to be answered
                answered.append(b"answer %d" % len(answered))
                back.under_way.append(there.taker.enter([VERSION, answered[-1]]))
        elif step == "there":
            carry_there(there, back)
        elif step == "back":
            back.carry()
        else:  # what was under way is lost, but perhaps not all that libzmq had not sent
            del there.under_way[: step[1]]
            del back.under_way[: step[2]]
            resume(there, engine)
    carry_all(there, back)
    assert (there.arrived, back.arrived) == (asked, answered)


def test_what_is_confirmed_is_not_kept():
    engine, home = Ledger(), Ledger()
    for _ in range(3):
        home.take(read_stamp(engine.enter([VERSION, b"four"])[0]), 4)
    assert engine.kept_bytes == 3 * (4 + len(VERSION))
    engine.take(read_stamp(home.enter([VERSION, b"an answer"])[0]))
    assert engine.kept_bytes == 0


def test_who_has_nothing_to_say_confirms_many_messages_or_large_ones():
    engine, home = Ledger(), Ledger()
    for number in range(CONFIRM_AFTER):
        assert not home.owes_word, number
        home.take(read_stamp(engine.enter([VERSION, b""])[0]))
    assert home.owes_word
    assert engine.take(read_stamp(home.word()[0])) == (False, Sign.CONFIRMS)
    assert engine.kept_bytes == 0
    assert not home.owes_word
    home.take(read_stamp(engine.enter([VERSION, b""])[0]), CONFIRM_BYTES)
    assert home.owes_word


def test_a_peer_that_was_forgotten_is_understood_again():
    engine, home = Ledger(), Ledger()
    for _ in range(3):
        home.take(read_stamp(engine.enter([VERSION, b""])[0]))
    engine.take(read_stamp(home.enter([VERSION, b"an answer"])[0]))
    stamp = read_stamp(engine.enter([VERSION, b"again"])[0])
    assert Ledger.begin_at(stamp).take(stamp) == (True, Sign.SAYS)
    word = read_stamp(engine.word(Sign.RESUMES)[0])
    later = Ledger.begin_at(word)
    assert later.take(word) == (False, Sign.RESUMES)
    assert later.take(stamp) == (True, Sign.SAYS)


def test_a_peer_whose_first_message_was_lost_is_taken_from_there_on():
    engine = Ledger()
    first, second = (read_stamp(engine.enter([VERSION, b""])[0]) for _ in range(2))
    home = Ledger.begin_at(second)
    assert home.take(second) == (False, Sign.SAYS)
    home.take(read_stamp(engine.word(Sign.RESUMES)[0]))
    assert [home.take(each)[0] for each in (first, second)] == [True, True]


def test_what_bears_no_stamp_is_left_alone():
    assert read_stamp(VERSION) is None
    assert read_stamp(b"jupyter-dist/0" + bytes(17)) is None


def lose(count, home):
    """Let a peer that has heard one message miss so many more."""
    peer = Ledger()
    peer.take(read_stamp(home.enter([VERSION, b"heard"])[0]))
    for _ in range(count):
        home.enter([VERSION, b"missed"])
    return peer


def resumed(peer, home):
    """Return whether the peer lacks something when it resumes."""
    stamp = read_stamp(peer.word(Sign.RESUMES)[0])
    home.take(stamp)
    return home.is_lacking(stamp)


def test_a_peer_that_was_given_up_lacks_what_it_has_missed_and_nothing_after_that():
    home = Ledger()
    peer = lose(2, home)
    home.give_up()
    home.enter([VERSION, b"missed too"])
    assert home.kept_bytes == 0
    assert resumed(peer, home)
    assert peer.take(read_stamp(home.word(Sign.LACKS)[0])) == (False, Sign.LACKS)
    assert not resumed(peer, home)
    assert peer.take(read_stamp(home.enter([VERSION, b"next"])[0])) == (True, Sign.SAYS)
    assert home.kept_bytes, "it keeps again what it says"


def test_a_peer_lacks_nothing_while_all_is_kept_or_where_it_has_heard_all():
    home = Ledger()
    assert not resumed(lose(2, home), home)
    heard = Ledger()
    peer = lose(0, heard)
    heard.give_up()
    assert not resumed(peer, heard)


def test_what_a_peer_said_is_taken_once_although_it_was_given_up():
    home, peer = Ledger(), Ledger()
    order = read_stamp(peer.enter([VERSION, b"run this"])[0])
    assert home.take(order) == (True, Sign.SAYS)
    home.enter([VERSION, b"it runs"])
    home.give_up()
    assert resumed(peer, home)
    assert home.take(order) == (False, Sign.SAYS)
