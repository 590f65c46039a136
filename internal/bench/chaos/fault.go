package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"oversell/internal/message"
)

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	ShopKill    Kind = "shop-kill"    // a shop is killed, and restarted later
	ShopStop    Kind = "shop-stop"    // a shop is stopped (SIGSTOP), and continued later
	ShopRestart Kind = "shop-restart" // a shop is shut down and restarted

	RedisFlush        Kind = "redis-flushall"       // FLUSHALL
	RedisFlushOften   Kind = "redis-flushall-often" // FLUSHALL every 100 ms
	RedisKeysLost     Kind = "redis-item-lost"      // all keys of the item are deleted, including its lock
	RedisStockLost    Kind = "redis-stock-lost"     // only the item's stock is deleted
	RedisKill         Kind = "redis-kill"           // Redis is killed, and restarted with its data
	RedisKillEmpty    Kind = "redis-kill-empty"     // Redis is killed, and restarted without its data
	RedisStop         Kind = "redis-stop"           // Redis is stopped (SIGSTOP), and continued later
	RedisReadOnly     Kind = "redis-readonly"       // Redis becomes a replica of an address without a server
	RedisOOM          Kind = "redis-oom"            // maxmemory 1
	RedisClientKill   Kind = "redis-client-kill"    // CLIENT KILL TYPE normal
	RedisClientPause  Kind = "redis-client-pause"   // CLIENT PAUSE
	RedisRepliesLost  Kind = "redis-replies-lost"   // every 20 ms a reply is lost and its connection broken
	RedisRepliesLate  Kind = "redis-replies-late"   // replies are delayed
	RedisBlackHole    Kind = "redis-black-hole"     // nothing gets through until the end, then all of it
	RedisDisconnected Kind = "redis-disconnected"   // connections are broken and new ones refused

	DBKill         Kind = "db-kill"         // the server is killed, and restarted later
	DBStop         Kind = "db-stop"         // the server is stopped (SIGSTOP), and continued later
	DBClientKill   Kind = "db-client-kill"  // KILL of every connection
	DBReadOnly     Kind = "db-read-only"    // SET GLOBAL read_only
	DBSlowInserts  Kind = "db-slow-inserts" // a trigger delays each inserted order
	DBTableFull    Kind = "db-table-full"   // a trigger fails every INSERT: the table is full
	DBRepliesLost  Kind = "db-replies-lost" // like RedisRepliesLost
	DBRepliesLate  Kind = "db-replies-late" // like RedisRepliesLate
	DBBlackHole    Kind = "db-black-hole"   // like RedisBlackHole
	DBDisconnected Kind = "db-disconnected" // like RedisDisconnected
)

// part is the kind of a fault's target.
type part int

const (
	shop part = iota
	redisServer
	redisLink // the connections of one shop, or of all shops, to Redis
	dbServer
	dbLink // the connections of one shop, or of all shops, to the database
)

// trait describes a kind of fault.
type trait struct {
	kind Kind
	part part
	real bool // it needs a redis-server; faults of the database always need a real server

	// A fault lasts at least the time least, and at most the time most plus ofTTL times the ttl. If
	// all three are zero, it has no duration.
	least, most time.Duration
	ofTTL       float64

	// amount is the longest random delay of a reply or an INSERT.
	amount time.Duration

	// stopsHolder says that the fault may delay a lock holder's write by its duration.
	stopsHolder bool
}

// traits lists all kinds.
func traits() []trait {
	const ms = time.Millisecond
	return []trait{
		{kind: ShopKill, part: shop, most: 1500 * ms},
		{kind: ShopStop, part: shop, least: 300 * ms, most: 300 * ms, ofTTL: 1.4, stopsHolder: true},
		{kind: ShopRestart, part: shop},

		{kind: RedisFlush, part: redisServer},
		{kind: RedisFlushOften, part: redisServer, least: 300 * ms, most: 1000 * ms},
		{kind: RedisKeysLost, part: redisServer},
		{kind: RedisStockLost, part: redisServer},
		{kind: RedisKill, part: redisServer, real: true, most: 1500 * ms},
		{kind: RedisKillEmpty, part: redisServer, real: true, most: 1500 * ms},
		{kind: RedisStop, part: redisServer, real: true, least: 200 * ms, most: 1000 * ms, ofTTL: 0.6,
			stopsHolder: true},
		{kind: RedisReadOnly, part: redisServer, real: true, least: 200 * ms, most: 2000 * ms},
		{kind: RedisOOM, part: redisServer, real: true, least: 200 * ms, most: 2000 * ms},
		{kind: RedisClientKill, part: redisServer, real: true},
		{kind: RedisClientPause, part: redisServer, real: true, least: 200 * ms, most: 1000 * ms, ofTTL: 0.6,
			stopsHolder: true},
		{kind: RedisRepliesLost, part: redisLink, least: 200 * ms, most: 2000 * ms},
		{kind: RedisRepliesLate, part: redisLink, least: 500 * ms, most: 2000 * ms, amount: 300 * ms},
		{kind: RedisBlackHole, part: redisLink, least: 200 * ms, most: 500 * ms, ofTTL: 1.2, stopsHolder: true},
		{kind: RedisDisconnected, part: redisLink, least: 200 * ms, most: 2000 * ms},

		{kind: DBKill, part: dbServer, most: 1000 * ms},
		{kind: DBStop, part: dbServer, least: 200 * ms, most: 2500 * ms},
		{kind: DBClientKill, part: dbServer},
		{kind: DBReadOnly, part: dbServer, least: 200 * ms, most: 2000 * ms},
		{kind: DBSlowInserts, part: dbServer, least: 500 * ms, most: 2500 * ms, amount: 100 * ms},
		{kind: DBTableFull, part: dbServer, least: 200 * ms, most: 2000 * ms},
		{kind: DBRepliesLost, part: dbLink, least: 200 * ms, most: 2000 * ms},
		{kind: DBRepliesLate, part: dbLink, least: 500 * ms, most: 2000 * ms, amount: 100 * ms},
		{kind: DBBlackHole, part: dbLink, least: 200 * ms, most: 2500 * ms},
		{kind: DBDisconnected, part: dbLink, least: 200 * ms, most: 2000 * ms},
	}
}

// traitOf returns the description of a kind, or false if there is no such kind.
func traitOf(k Kind) (trait, bool) {
	for _, t := range traits() {
		if t.kind == k {
			return t, true
		}
	}
	return trait{}, false
}

// Kinds lists the kinds that can be injected into these backends, and those that cannot.
func Kinds(embeddedRedis, embeddedDB bool) (can, cannot []Kind) {
	for _, t := range traits() {
		ofDB := t.part == dbServer || t.part == dbLink
		if t.real && embeddedRedis || ofDB && embeddedDB {
			cannot = append(cannot, t.kind)
		} else {
			can = append(can, t.kind)
		}
	}
	return can, cannot
}

// ParseKinds returns the kinds with the given names.
func ParseKinds(names []string) ([]Kind, error) {
	var kinds []Kind
	for _, name := range names {
		if _, found := traitOf(Kind(name)); !found {
			all, _ := Kinds(false, false)
			return nil, fmt.Errorf("%q is not a fault (allowed: %s)", name, join(all))
		}
		kinds = append(kinds, Kind(name))
	}
	return kinds, nil
}

// join formats a list of kinds.
func join(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Fault is one randomly drawn fault.
type Fault struct {
	Kind   Kind
	Victim int           // index of the shop or link; all: every shop or link
	At     time.Duration // when it begins, after the start
	For    time.Duration // how long it lasts; 0: it has no duration
	Amount time.Duration // delay of replies or of an INSERT
}

// all is the Victim of a fault in all shops or links.
const all = -1

// StopsHolder reports whether the fault may delay a lock holder's write for longer than
// the ttl.
func (f Fault) StopsHolder(ttl time.Duration) bool {
	t, _ := traitOf(f.Kind)
	return t.stopsHolder && f.For >= ttl
}

// OfShop reports whether the fault is injected into a shop's process.
func (f Fault) OfShop() bool {
	t, _ := traitOf(f.Kind)
	return t.part == shop
}

// Target names what the fault is injected into.
func (f Fault) Target() message.Message {
	t, _ := traitOf(f.Kind)
	switch {
	case t.part == redisServer:
		return message.Text("redis")
	case t.part == dbServer:
		return message.Text("database")
	case f.Victim == all:
		return message.Text("all shops")
	}
	return message.Newf("shop %d", f.Victim+1)
}

// String names the fault and its amount.
func (f Fault) String() string {
	text := string(f.Kind)
	if f.Amount > 0 {
		text += fmt.Sprintf(" by %v", f.Amount)
	}
	return text
}

// Draw is the input for drawing faults.
type Draw struct {
	Seed     uint64
	Kinds    []Kind        // at least one
	Duration time.Duration // of the sale
	TTL      time.Duration
	Shops    int
}

// leastGap and mostGap limit the time from the end of a fault to the next fault. lastGap is the
// shortest time from the end of the last fault to the end of the sale.
const (
	leastGap = 1000 * time.Millisecond
	mostGap  = 2500 * time.Millisecond
	lastGap  = 1000 * time.Millisecond
)

// Faults draws the faults of a sale, ordered by the time when they begin. They do not
// overlap. The same Draw returns the same faults. Every kind is drawn once before any is
// drawn again.
func (d Draw) Faults() []Fault {
	rng := rand.New(rand.NewPCG(d.Seed, uint64(len(d.Kinds))))
	var faults []Fault
	var bag []Kind
	for at := between(rng, leastGap/2, mostGap/2); ; {
		if len(bag) == 0 {
			bag = slices.Clone(d.Kinds)
			rng.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		f := d.one(rng, bag[0], at)
		bag = bag[1:]
		end := at + f.For
		if end > d.Duration-lastGap {
			if len(faults) > 0 || at > d.Duration {
				return faults
			}
			f.For = max(0, d.Duration-lastGap-at) // a short sale has at least one fault
			return append(faults, f)
		}
		faults = append(faults, f)
		at = end + between(rng, leastGap, mostGap)
	}
}

// one draws a fault of a kind.
func (d Draw) one(rng *rand.Rand, k Kind, at time.Duration) Fault {
	t, _ := traitOf(k)
	f := Fault{Kind: k, Victim: all, At: at}
	most := t.most + time.Duration(t.ofTTL*float64(d.TTL))
	if most > 0 {
		f.For = between(rng, t.least, most)
	}
	if t.amount > 0 {
		f.Amount = between(rng, t.amount/10, t.amount)
	}
	switch n := rng.IntN(2 * d.Shops); {
	case t.part == shop:
		f.Victim = n % d.Shops
	case (t.part == redisLink || t.part == dbLink) && n < d.Shops:
		f.Victim = n
	}
	return f
}

// between draws a duration between least and most, in whole milliseconds.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	span := int64((most - least) / time.Millisecond)
	return least.Round(time.Millisecond) + time.Duration(rng.Int64N(span+1))*time.Millisecond
}
