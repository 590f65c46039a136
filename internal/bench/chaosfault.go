package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"oversell/internal/message"
	"oversell/internal/naming"
)

// ChaosKind is a kind of fault of condition chaos.
type ChaosKind string

// The kinds.
const (
	shopKill    ChaosKind = "shop-kill"    // a shop is killed, and restarted later
	shopStop    ChaosKind = "shop-stop"    // a shop is stopped (SIGSTOP), and continued later
	shopRestart ChaosKind = "shop-restart" // a shop is shut down and restarted

	redisFlush        ChaosKind = "redis-flushall"       // FLUSHALL
	redisFlushOften   ChaosKind = "redis-flushall-often" // FLUSHALL every 100 ms
	redisKeysLost     ChaosKind = "redis-item-lost"      // all keys of the item are deleted, including its lock
	redisStockLost    ChaosKind = "redis-stock-lost"     // only the item's stock is deleted
	redisKill         ChaosKind = "redis-kill"           // Redis is killed, and restarted with its data
	redisKillEmpty    ChaosKind = "redis-kill-empty"     // Redis is killed, and restarted without its data
	redisStop         ChaosKind = "redis-stop"           // Redis is stopped (SIGSTOP), and continued later
	redisReadOnly     ChaosKind = "redis-readonly"       // Redis becomes a replica of an address without a server
	redisOOM          ChaosKind = "redis-oom"            // maxmemory 1
	redisClientKill   ChaosKind = "redis-client-kill"    // CLIENT KILL TYPE normal
	redisClientPause  ChaosKind = "redis-client-pause"   // CLIENT PAUSE
	redisRepliesLost  ChaosKind = "redis-replies-lost"   // every 20 ms a reply is lost and its connection broken
	redisRepliesLate  ChaosKind = "redis-replies-late"   // replies are delayed
	redisBlackHole    ChaosKind = "redis-black-hole"     // nothing gets through until the end, then all of it
	redisDisconnected ChaosKind = "redis-disconnected"   // connections are broken and new ones refused

	dbKill         ChaosKind = "db-kill"         // the server is killed, and restarted later
	dbStop         ChaosKind = "db-stop"         // the server is stopped (SIGSTOP), and continued later
	dbClientKill   ChaosKind = "db-client-kill"  // KILL of every connection
	dbReadOnly     ChaosKind = "db-read-only"    // SET GLOBAL read_only
	dbSlowInserts  ChaosKind = "db-slow-inserts" // a trigger delays each inserted order
	dbTableFull    ChaosKind = "db-table-full"   // a trigger fails every INSERT: the table is full
	dbRepliesLost  ChaosKind = "db-replies-lost" // like redisRepliesLost
	dbRepliesLate  ChaosKind = "db-replies-late" // like redisRepliesLate
	dbBlackHole    ChaosKind = "db-black-hole"   // like redisBlackHole
	dbDisconnected ChaosKind = "db-disconnected" // like redisDisconnected
)

// part is the kind of a fault's target.
type part int

const (
	shopPart part = iota
	redisPart
	redisLink // the connections of one shop, or of all shops, to Redis
	dbPart
	dbLink // the connections of one shop, or of all shops, to the database
)

// trait describes a kind of fault.
type trait struct {
	kind ChaosKind
	part part
	real bool // it needs a redis-server; faults of the database always need a real server

	// A fault lasts at least the time least, and at most the time most plus ofTTL times the ttl. If
	// all three are zero, it has no duration.
	least, most time.Duration
	ofTTL       float64

	mostDelay   time.Duration // longest random delay of a reply or an INSERT
	stopsHolder bool          // the fault may delay a lock holder's write by its duration
}

// traits lists all kinds.
func traits() []trait {
	const ms = time.Millisecond
	return []trait{
		{kind: shopKill, part: shopPart, most: 1500 * ms},
		{kind: shopStop, part: shopPart, least: 300 * ms, most: 300 * ms, ofTTL: 1.4, stopsHolder: true},
		{kind: shopRestart, part: shopPart},

		{kind: redisFlush, part: redisPart},
		{kind: redisFlushOften, part: redisPart, least: 300 * ms, most: 1000 * ms},
		{kind: redisKeysLost, part: redisPart},
		{kind: redisStockLost, part: redisPart},
		{kind: redisKill, part: redisPart, real: true, most: 1500 * ms},
		{kind: redisKillEmpty, part: redisPart, real: true, most: 1500 * ms},
		{kind: redisStop, part: redisPart, real: true, least: 200 * ms, most: 1000 * ms, ofTTL: 0.6,
			stopsHolder: true},
		{kind: redisReadOnly, part: redisPart, real: true, least: 200 * ms, most: 2000 * ms},
		{kind: redisOOM, part: redisPart, real: true, least: 200 * ms, most: 2000 * ms},
		{kind: redisClientKill, part: redisPart, real: true},
		{kind: redisClientPause, part: redisPart, real: true, least: 200 * ms, most: 1000 * ms, ofTTL: 0.6,
			stopsHolder: true},
		{kind: redisRepliesLost, part: redisLink, least: 200 * ms, most: 2000 * ms},
		{kind: redisRepliesLate, part: redisLink, least: 500 * ms, most: 2000 * ms, mostDelay: 300 * ms},
		{kind: redisBlackHole, part: redisLink, least: 200 * ms, most: 500 * ms, ofTTL: 1.2, stopsHolder: true},
		{kind: redisDisconnected, part: redisLink, least: 200 * ms, most: 2000 * ms},

		{kind: dbKill, part: dbPart, most: 1000 * ms},
		{kind: dbStop, part: dbPart, least: 200 * ms, most: 2500 * ms},
		{kind: dbClientKill, part: dbPart},
		{kind: dbReadOnly, part: dbPart, least: 200 * ms, most: 2000 * ms},
		{kind: dbSlowInserts, part: dbPart, least: 500 * ms, most: 2500 * ms, mostDelay: 100 * ms},
		{kind: dbTableFull, part: dbPart, least: 200 * ms, most: 2000 * ms},
		{kind: dbRepliesLost, part: dbLink, least: 200 * ms, most: 2000 * ms},
		{kind: dbRepliesLate, part: dbLink, least: 500 * ms, most: 2000 * ms, mostDelay: 100 * ms},
		{kind: dbBlackHole, part: dbLink, least: 200 * ms, most: 2500 * ms},
		{kind: dbDisconnected, part: dbLink, least: 200 * ms, most: 2000 * ms},
	}
}

// traitOf returns the description of a kind, which must exist.
func traitOf(k ChaosKind) trait {
	all := traits()
	return all[slices.IndexFunc(all, func(t trait) bool { return t.kind == k })]
}

// chaosKinds lists the kinds that can be injected into these backends.
func chaosKinds(embeddedRedis, embeddedDB bool) (can []ChaosKind) {
	for _, t := range traits() {
		ofDB := t.part == dbPart || t.part == dbLink
		if !(t.real && embeddedRedis) && !(ofDB && embeddedDB) {
			can = append(can, t.kind)
		}
	}
	return can
}

// ParseChaosKinds returns the kinds with the given names.
func ParseChaosKinds(names []string) (kinds []ChaosKind, err error) {
	all := chaosKinds(false, false)
	for _, name := range names {
		if !slices.Contains(all, ChaosKind(name)) {
			return nil, fmt.Errorf("%q is not a fault (%s)", name, naming.Hint(name, all))
		}
		kinds = append(kinds, ChaosKind(name))
	}
	return kinds, nil
}

// chaosFault is one randomly drawn fault.
type chaosFault struct {
	trait
	victim int           // index of the shop or link; everyShop: every shop or link
	at     time.Duration // when it begins, after the start
	lasts  time.Duration // 0: it has no duration
	delay  time.Duration // of replies or of an INSERT
}

// everyShop is the victim of a fault in all shops or links.
const everyShop = -1

// target names what the fault is injected into.
func (f chaosFault) target() message.Message {
	switch {
	case f.part == redisPart:
		return message.Text("redis")
	case f.part == dbPart:
		return message.Text("database")
	case f.victim == everyShop:
		return message.Text("all shops")
	}
	return message.Newf("shop %d", f.victim+1)
}

// String names the fault and its delay.
func (f chaosFault) String() string {
	text := string(f.kind)
	if f.delay > 0 {
		text += fmt.Sprintf(" by %v", f.delay)
	}
	return text
}

// leastGap and mostGap limit the time from the end of a fault to the next fault. lastGap is the
// shortest time from the end of the last fault to the end of the sale.
const (
	leastGap = 1000 * time.Millisecond
	mostGap  = 2500 * time.Millisecond
	lastGap  = 1000 * time.Millisecond

	// leastChaos is the shortest allowed sale, so that one fault fits into it.
	leastChaos = 3 * time.Second
)

// drawFaults draws the faults of a sale, ordered by the time when they begin. They do not overlap.
// The same config returns the same faults. Every kind of c.Faults, which must not be empty, is drawn
// once before any is drawn again.
func (c Config) drawFaults() []chaosFault {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(len(c.Faults))))
	var faults []chaosFault
	var bag []ChaosKind
	for at := between(rng, leastGap/2, mostGap/2); ; {
		if len(bag) == 0 {
			bag = slices.Clone(c.Faults)
			rng.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		f := c.drawFault(rng, bag[0], at)
		bag = bag[1:]
		end := at + f.lasts
		if end > c.Duration-lastGap {
			if len(faults) > 0 {
				return faults
			}
			f.lasts = c.Duration - lastGap - at // a short sale has at least one fault
			return append(faults, f)
		}
		faults = append(faults, f)
		at = end + between(rng, leastGap, mostGap)
	}
}

// drawFault draws a fault of a kind.
func (c Config) drawFault(rng *rand.Rand, k ChaosKind, at time.Duration) chaosFault {
	t := traitOf(k)
	f := chaosFault{trait: t, victim: everyShop, at: at}
	most := t.most + time.Duration(t.ofTTL*float64(c.TTL))
	if most > 0 {
		f.lasts = between(rng, t.least, most)
	}
	if t.mostDelay > 0 {
		f.delay = between(rng, t.mostDelay/10, t.mostDelay)
	}
	switch n := rng.IntN(2 * c.Instances); {
	case t.part == shopPart:
		f.victim = n % c.Instances
	case (t.part == redisLink || t.part == dbLink) && n < c.Instances:
		f.victim = n
	}
	return f
}

// between draws a duration between least and most, in whole milliseconds.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	span := int64((most - least) / time.Millisecond)
	return least.Round(time.Millisecond) + time.Duration(rng.Int64N(span+1))*time.Millisecond
}
