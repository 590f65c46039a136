package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

// setup is the first message to an instance.
type setup struct {
	RedisURL string        `json:"redis_url"`
	DBURL    string        `json:"db_url"`
	Name     string        `json:"name"`
	Token    string        `json:"token"`
	TTL      time.Duration `json:"ttl"`
	Wait     time.Duration `json:"wait"`
	Policy   string        `json:"policy"`
	Unfenced bool          `json:"unfenced"`
	Holders  bool          `json:"holders,omitempty"` // the instance's gauge counts holders

	Replicas   int       `json:"replicas,omitempty"`    // number of Redis replicas that must have an accepted order
	NoConsumer bool      `json:"no_consumer,omitempty"` // the shop does not write accepted orders: workers do
	Worker     bool      `json:"worker,omitempty"`      // the process is a worker, not a shop
	Fault      fleet.Arm `json:"fault,omitzero"`        // the fault of a worker

	Servers lockservers.Addresses `json:"servers"`

	// For a sale by holds.
	Provider string `json:"provider,omitempty"` // URL of the payment provider; "": not a sale by holds
	Ledger   string `json:"ledger,omitempty"`   // the provider's own address, even if a relay leads to it
	Secret   []byte `json:"secret,omitempty"`   // signs webhooks
}

// order is a later message to an instance. Exactly one of its fields is set.
type order struct {
	Plan  *plan      `json:"plan,omitempty"`
	Until *time.Time `json:"until,omitempty"` // no holder leaves before this time
}

// The time limits of an instance.
const (
	orderTimeout = 5 * time.Second
	stopTimeout  = 6 * time.Second
)

// shops are the instances of a bench, or shops that were running already.
type shops struct {
	*fleet.Fleet
	command func() (*exec.Cmd, error) // runs an instance
	setup   setup
	turn    atomic.Uint64
	later   fleet.Arm // the fault of the row's plan, armed only once all shops take part

	relayed []string // the partners that shops reach through relays, which can cut the connections
	gauged  bool     // their gauges count holders, and the bench can read gauges on this system
}

// shopsAt returns running shops, whose processes the bench does not know.
func shopsAt(targets []string) *shops {
	var all []*fleet.Member
	for _, target := range targets {
		all = append(all, &fleet.Member{URL: target})
	}
	return &shops{Fleet: fleet.Of(all...)}
}

// shop returns the program that starts the shop with this number.
func (f *shops) shop(number int) (p fleet.Program, err error) {
	s := f.setup
	s.Name = fmt.Sprintf("%s-%d", s.Name, number)
	s.Holders = f.gauged
	if fleet.LiveWords {
		p.Words = gaugeWords
	}
	p.Links = make(map[string]*fault.Relay)
	for _, to := range f.relayed {
		link, err := s.relay(to)
		if err != nil {
			for _, l := range p.Links {
				err = errors.Join(err, l.Close())
			}
			return p, fmt.Errorf("relaying an instance's connections to %s: %w", to, err)
		}
		if link != nil {
			p.Links[to] = link
		}
	}
	p.Name, p.Command, p.Setup = "instance "+s.Name, f.command, s
	return p, nil
}

// next returns the address of the next shop in turn, leaving out those that were killed. It returns
// the address of a stopped shop only if all are stopped.
func (f *shops) next() string {
	alive := f.Running()
	running := slices.DeleteFunc(slices.Clone(alive), func(m *fleet.Member) bool { return m.Paused.Load() })
	if len(running) == 0 {
		running = alive
	}
	if len(running) == 0 {
		return "" // the caller fails and tries again
	}
	return running[f.turn.Add(1)%uint64(len(running))].URL
}

// The links of a shop to its partners: see fleet.Member.
const (
	toRedis    = "redis"
	toDatabase = "database"
	toProvider = "provider"
)

// relay puts a relay between an instance and a partner. A database that is not reached over TCP
// gets no relay.
func (s *setup) relay(to string) (link *fault.Relay, err error) {
	if to == toProvider {
		if link, err = fault.StartRelay(strings.TrimPrefix(s.Provider, "http://")); err == nil {
			s.Provider = "http://" + link.Addr
		}
		return link, err
	}
	url, addrOf, with := &s.RedisURL, backend.SingleAddr, backend.WithAddr
	if to == toDatabase {
		url, addrOf, with = &s.DBURL, backend.DatabaseAddr, backend.WithDatabaseAddr
	}
	addr, err := addrOf(*url)
	if errors.Is(err, backend.ErrNotRelayed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if link, err = fault.StartRelay(addr); err != nil {
		return nil, err
	}
	if *url, err = with(*url, link.Addr); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	return link, nil
}

// follow gives all shops the plan for the next row. If no lock keeps the shops apart, the fault is
// armed only when all of them have begun to sell: a shop that sells alone at first could be killed
// before two holders can meet. With a lock the other shops wait, so the first holders get the
// fault.
func (f *shops) follow(ctx context.Context, p plan, unguarded bool) error {
	f.later = fleet.Arm{}
	if unguarded && p.Fault.Delay == 0 && fleet.LiveWords {
		f.later, p.Fault = p.Fault, fleet.Arm{}
	}
	return f.Each(func(m *fleet.Member) error { return m.Tell(ctx, order{Plan: &p}, nil, orderTimeout) })
}

// stay keeps holders that enter from now on inside until the given time, in all shops except the
// given one.
func (f *shops) stay(ctx context.Context, until time.Time, but *fleet.Member) error {
	return f.Each(func(m *fleet.Member) error {
		if m == but {
			return nil
		}
		return m.Tell(context.WithoutCancel(ctx), order{Until: &until}, nil, orderTimeout)
	})
}

// worked returns how many times the work step was reached since the row began, in all shops except the
// given one, or -1 if there are no gauges.
func (f *shops) worked(without *fleet.Member) (n int64) {
	if !f.gauged {
		return -1
	}
	for _, m := range f.Members() {
		if m != without {
			n += m.Words.Load(gaugeWork)
		}
	}
	return n
}

// succeeded waits until a holder is at work in a shop other than the late one, until the maximum time has
// passed, or until ctx ends. A holder at work has read the stock, so it does not notice what the late one
// writes from now on. The argument before is the result of worked when the shop was stopped or cut off.
func (f *shops) succeeded(ctx context.Context, late *fleet.Member, before int64, most time.Duration) {
	for end := time.Now().Add(most); before >= 0 && f.worked(late) == before && time.Now().Before(end); {
		if guard.Sleep(ctx, glancePause) != nil {
			return
		}
	}
}

// held returns the total time for which connections to the database were out of the pool in this
// row, in all shops including killed ones, or false if it was not measured.
func (f *shops) held() (sum time.Duration, ok bool) {
	for _, m := range f.Members() {
		if m.Words == nil {
			return 0, false
		}
		sum += time.Duration(m.Words.Load(gaugeHeld))
	}
	return sum, true
}

// errNotInjected means that the fault of a row was not injected.
var errNotInjected = errors.New("no holder reached the critical section")

// takePart reports whether all running shops have begun to sell. It needs fleet.LiveWords.
func (f *shops) takePart() bool {
	return !slices.ContainsFunc(f.Running(), func(m *fleet.Member) bool { return m.Words.Load(gaugeWork) == 0 })
}

// inject calls fault with the shop of the first holder that waits at a seam. Holders that reach a
// seam in other shops are resumed. It returns at the latest when ctx ends, which is when the row is
// over.
func (f *shops) inject(ctx context.Context, fault func(m *fleet.Member) error) error {
	if len(f.later.At) > 0 {
		for !f.takePart() {
			if guard.Sleep(ctx, glancePause) != nil {
				return errNotInjected
			}
		}
		if err := f.Arm(ctx, f.later); err != nil {
			return err
		}
	}
	err := f.Catch(ctx, fault)
	f.LetGo(ctx)
	if errors.Is(err, fleet.ErrNotReached) {
		return errNotInjected
	}
	return err
}

// overstayed records slow and late holders until ctx ends, which is when the row is over. Once a
// first holder is late, other holders that enter stay inside for a while.
func (r *run) overstayed(ctx context.Context) error {
	var found atomic.Bool
	err := r.shops.Each(func(m *fleet.Member) error {
		select {
		case until := <-m.HeldUp:
			first, kind := !found.Swap(true), Slow
			if r.cond == catalog.Late {
				kind = Late
			}
			r.faults.add(span{kind: kind, until: until})
			if first && kind == Late {
				return r.shops.stay(ctx, until.Add(r.cfg.linger()), nil)
			}
		case <-ctx.Done():
		}
		return nil
	})
	if !found.Load() {
		err = errors.Join(err, errNotInjected)
	}
	return err
}

// A gauge keeps figures of an instance in shared memory: its holders, and how long it used
// connections to the database. The bench can read them at any moment, even while the process is
// stopped or after it was killed. All figures only grow during a row: if two readings agree, no
// holder entered or left in between.
const (
	gaugeCame = iota
	gaugeWent
	gaugeHeld // nanoseconds that connections to the database were out of the pool
	gaugeWork // number of times the work step was reached, also by scripts, which have no holders
	gaugeWords
)

// maxGlances is the maximum number of attempts to read all gauges at one moment.
const maxGlances = 100

// inside returns the number of holders at one moment in all shops that were not killed. It reads all
// gauges until two readings agree, and returns false if none do. The shops must be gauged.
func (f *shops) inside() (n int64, ok bool) {
	read := f.Running()
	sum := func() (came, went int64) {
		for _, m := range read {
			came, went = came+m.Words.Load(gaugeCame), went+m.Words.Load(gaugeWent)
		}
		return came, went
	}
	came, went := sum()
	for range maxGlances {
		c, w := sum()
		if c == came && w == went {
			// The gauge of a shop killed in the meantime still counts its holders.
			return came - went, !slices.ContainsFunc(read, func(m *fleet.Member) bool { return !m.Runs() })
		}
		came, went = c, w
	}
	return 0, false
}

// partition cuts off the instance of the holder that waits, and lets the holder go on.
//
// If the stock is in the database, only the unlock arrives too late, as under the late condition.
// So holders in other instances are kept at work until it has arrived.
func (r *run) partition(ctx context.Context, m *fleet.Member) error {
	outlast := r.outlast(ctx, m)
	if r.cfg.keeper(r.strategy, r.cond) == stock.InDatabase && r.strategy.Kind == catalog.Guarded {
		// The instance m is left out, because within one process the lock is handed on without
		// Redis.
		if err := r.shops.stay(ctx, time.Now().Add(r.cfg.long()+r.cfg.linger()), m); err != nil {
			return errors.Join(err, m.Resume())
		}
		outlast = func() { _ = guard.Sleep(ctx, r.cfg.long()) }
	}
	defer r.faults.begin(CutOff)()
	return m.CutOff(toRedis, outlast)
}
