package lab

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/locks"
	"oversell/internal/message"
	"oversell/internal/naming"
)

// Schedule is the order of events while a few buyers, each in its own process, buy the last units
// of an item. Nothing else happens. The page sends it in this form.
type Schedule struct {
	Strategy string `json:"strategy"` // one of Levels, or a short name (see naming.Expand)
	Buyers   int    `json:"buyers"`   // 2 or 3; there is one fewer unit than there are buyers
	Moves    string `json:"moves"`    // in the form that ParseMoves reads
	Goal     Goal   `json:"goal"`     // one of Goals, or ""
}

// Action is what a Move does.
type Action byte

// The actions.
const (
	Step   Action = 's' // Redis receives a buyer's pending command and replies
	Pass   Action = 'p' // time passes
	Freeze Action = 'f' // a buyer's process freezes
	Thaw   Action = 't' // a frozen process resumes
	Kill   Action = 'k' // a buyer's process is killed
	Lose   Action = 'l' // like Step, but the connection breaks before the reply arrives
)

// Move is one of the Moves of a Schedule.
type Move struct {
	Action Action
	Buyer  int           // 0 means A; not used by Pass
	Nth    int           // Step, Lose: number of the buyer's command, from 1; 0 means the first
	For    time.Duration // Pass: how long, in whole milliseconds
}

// ScheduleTTL is the lease of a lock in a schedule.
const ScheduleTTL = virtualTTL

// retryDelay is how long a buyer in a schedule sleeps between two tries, if its lock cannot wait by
// itself.
const retryDelay = ScheduleTTL / 60

// Bounds of a schedule.
const (
	MaxMoves    = 200
	MaxPass     = time.Minute     // limit for one move
	MaxSchedule = 5 * time.Minute // limit for all moves together
)

// Refusal is the error about a schedule that cannot be played.
type Refusal struct {
	Why message.Message // meant for the author of the schedule
}

func (r Refusal) Error() string { return "no schedule: " + r.Why.String() }

// Refuse returns a Refusal.
func Refuse(format string, args ...any) error { return Refusal{message.Newf(format, args...)} }

const unknownMove = "move %d is %s (allowed, with dots between them: A, B, C for a buyer's next command, " +
	"A2 for the second one it is about to send, lA or lA2 for the same with the reply lost, " +
	"p500 to let 500 ms pass (1 to 60000), fA to freeze a process, tA to thaw it, kA to kill it)"

// Levels returns the strategies that can be scheduled: all but the scripts, those of the database,
// third-party locks, and locks on other servers. In a nested strategy, the work under the lock calls
// a helper that locks again.
func Levels() []string {
	names := slices.Concat([]string{"none", "local"}, locks.Stages(), []string{"watch"})
	for _, s := range nested() {
		names = append(names, s.Name)
	}
	return append(names, "yours")
}

// ParseMoves parses moves in the form that MovesText writes. The error is a Refusal.
func ParseMoves(text string) ([]Move, error) {
	if text == "" {
		return nil, nil
	}
	words := strings.SplitN(text, ".", MaxMoves+1)
	if len(words) > MaxMoves {
		return nil, Refuse("at most %d moves are allowed", MaxMoves)
	}
	moves := make([]Move, len(words))
	for i, word := range words {
		m, ok := parseMove(word)
		if !ok {
			return nil, Refuse(unknownMove, i+1, shorten(word))
		}
		moves[i] = m
	}
	return moves, nil
}

// moveForm matches a move. Numbers have no leading zeros.
var moveForm = regexp.MustCompile(`^(?:(p)([1-9][0-9]{0,4})|([ftk])([ABC])|(l?)([ABC])([1-9]?))$`)

func parseMove(word string) (Move, bool) {
	m := moveForm.FindStringSubmatch(word)
	switch {
	case m == nil:
		return Move{}, false
	case m[1] != "":
		ms, _ := strconv.Atoi(m[2]) // moveForm allows only digits
		d := time.Duration(ms) * time.Millisecond
		return Move{Action: Pass, For: d}, d <= MaxPass
	case m[3] != "":
		return Move{Action: Action(m[3][0]), Buyer: int(m[4][0] - 'A')}, true
	}
	nth, _ := strconv.Atoi(m[7]) // a digit, or ""
	if nth == 1 {
		nth = 0
	}
	move := Move{Action: Step, Buyer: int(m[6][0] - 'A'), Nth: nth}
	if m[5] != "" {
		move.Action = Lose
	}
	return move, true
}

// shorten quotes an untrusted text, cut to a readable length.
func shorten(text string) string {
	const most = 20
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.QuoteToASCII(text)
}

// MovesText writes moves in a form that fits into a link, such as "A.B.p500.fB".
func MovesText(moves []Move) string {
	words := make([]string, len(moves))
	for i, m := range moves {
		words[i] = m.String()
	}
	return strings.Join(words, ".")
}

// String returns the move in the form that ParseMoves parses.
func (m Move) String() string {
	switch {
	case m.Action == Pass:
		return "p" + strconv.FormatInt(m.For.Milliseconds(), 10)
	case m.Action != Step && m.Action != Lose:
		return string(rune(m.Action)) + buyerName(m.Buyer)
	}
	text := buyerName(m.Buyer)
	if m.Action == Lose {
		text = string(rune(Lose)) + text
	}
	if m.Nth > 1 {
		text += strconv.Itoa(m.Nth)
	}
	return text
}

func buyerName(i int) string { return string(rune('A' + i)) }

// Units returns the number of units for that many buyers: one fewer than there are buyers. With
// three buyers, the first can buy, unlock late, and harm the other two.
func Units(buyers int) int { return buyers - 1 }

// read returns the subject and the moves of a schedule, or a Refusal if it is out of bounds.
func (s Schedule) read() (Subject, []Move, error) {
	moves, err := ParseMoves(s.Moves)
	if err != nil {
		return Subject{}, nil, err
	}
	if s.Goal != "" && !slices.Contains(Goals(), s.Goal) {
		return Subject{}, nil, Refuse("unknown goal %s (allowed: %s)", shorten(string(s.Goal)), GoalNames())
	}
	c, err := Scheduled(naming.Expand(s.Strategy, Levels()), s.Buyers)
	if err != nil {
		return Subject{}, nil, err
	}
	var passed time.Duration
	for i, m := range moves {
		if m.Buyer >= s.Buyers {
			return Subject{}, nil, Refuse("move %d, %v, is for a buyer that does not exist: there are %d",
				i+1, m, s.Buyers)
		}
		if passed += m.For; passed > MaxSchedule {
			return Subject{}, nil, Refuse("move %d, %v, lets too much time pass: at most %v at once, and %v in all",
				i+1, m, MaxPass, MaxSchedule)
		}
	}
	return c, moves, nil
}

// Scheduled returns the subject of a strategy, or a Refusal if it cannot be scheduled with that many
// buyers.
func Scheduled(strategy string, buyers int) (Subject, error) {
	if buyers < 2 || buyers > 3 {
		return Subject{}, Refuse("there can be 2 or 3 buyers, not %d", buyers)
	}
	all := slices.Concat(Subjects(), nested(), []Subject{Yours()})
	i := slices.IndexFunc(all, func(c Subject) bool { return c.Name == strategy })
	if i >= 0 && slices.Contains(Levels(), strategy) {
		return all[i], nil
	}
	return Subject{}, Refuse("unknown strategy %s (allowed: %s)", shorten(strategy), strings.Join(Levels(), ", "))
}
