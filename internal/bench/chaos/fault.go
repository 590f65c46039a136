package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	ShopKill    Kind = "shop-kill"
	ShopStop    Kind = "shop-stop"
	ShopRestart Kind = "shop-restart"

	RedisFlush        Kind = "redis-flushall"
	RedisFlushOften   Kind = "redis-flushall-often"
	RedisKeysLost     Kind = "redis-item-lost"
	RedisStockLost    Kind = "redis-stock-lost"
	RedisKill         Kind = "redis-kill"
	RedisKillEmpty    Kind = "redis-kill-empty"
	RedisStop         Kind = "redis-stop"
	RedisReadOnly     Kind = "redis-readonly"
	RedisOOM          Kind = "redis-oom"
	RedisClientKill   Kind = "redis-client-kill"
	RedisClientPause  Kind = "redis-client-pause"
	RedisRepliesLost  Kind = "redis-replies-lost"
	RedisRepliesLate  Kind = "redis-replies-late"
	RedisBlackHole    Kind = "redis-black-hole"
	RedisDisconnected Kind = "redis-disconnected"

	DBKill         Kind = "db-kill"
	DBStop         Kind = "db-stop"
	DBClientKill   Kind = "db-client-kill"
	DBReadOnly     Kind = "db-read-only"
	DBSlowInserts  Kind = "db-slow-inserts"
	DBTableFull    Kind = "db-table-full"
	DBRepliesLost  Kind = "db-replies-lost"
	DBRepliesLate  Kind = "db-replies-late"
	DBBlackHole    Kind = "db-black-hole"
	DBDisconnected Kind = "db-disconnected"
)

// part is what a fault strikes.
type part int

const (
	shop part = iota
	redisServer
	redisLink // between one shop or all of them and Redis
	dbServer
	dbLink // between one shop or all of them and the database
)

// needs is what a fault can be done to.
type needs int

const (
	anything  needs = iota
	realRedis       // a redis-server
	realDB          // a MariaDB or MySQL
)

// trait is what is known of a kind.
type trait struct {
	kind  Kind
	about string
	part  part
	needs needs

	// A fault lasts from least to most, plus up to ofTTL times the ttl. All zero:
	// it is over as soon as it is done.
	least, most time.Duration
	ofTTL       float64

	// amount is the most of what else is drawn: how late replies are, and how long
	// an INSERT takes.
	amount time.Duration

	// stopsHolder says that a write of somebody who holds a lock may come later by as
	// much as the fault lasts.
	stopsHolder bool
}

// traits lists all kinds.
func traits() []trait {
	const ms = time.Millisecond
	return []trait{
		{kind: ShopKill, about: "a shop is killed, and started again later", part: shop, most: 1500 * ms},
		{kind: ShopStop, about: "a shop is stopped (SIGSTOP), and goes on later", part: shop, least: 300 * ms, most: 300 * ms, ofTTL: 1.4, stopsHolder: true},
		{kind: ShopRestart, about: "a shop is told to end, and started again", part: shop},

		{kind: RedisFlush, about: "FLUSHALL", part: redisServer},
		{kind: RedisFlushOften, about: "FLUSHALL every 100 ms", part: redisServer, least: 300 * ms, most: 1000 * ms},
		{kind: RedisKeysLost, about: "all keys of the item are deleted, those of its lock as well", part: redisServer},
		{kind: RedisStockLost, about: "the item's stock is deleted, and its other keys are not", part: redisServer},
		{kind: RedisKill, about: "Redis is killed, and started again with its data", part: redisServer, needs: realRedis, most: 1500 * ms},
		{kind: RedisKillEmpty, about: "Redis is killed, and started again without its data", part: redisServer, needs: realRedis, most: 1500 * ms},
		{kind: RedisStop, about: "Redis is stopped (SIGSTOP), and goes on later", part: redisServer, needs: realRedis, least: 200 * ms, most: 1000 * ms, ofTTL: 0.6, stopsHolder: true},
		{kind: RedisReadOnly, about: "Redis becomes a replica of nobody: READONLY", part: redisServer, needs: realRedis, least: 200 * ms, most: 2000 * ms},
		{kind: RedisOOM, about: "Redis is out of memory: OOM", part: redisServer, needs: realRedis, least: 200 * ms, most: 2000 * ms},
		{kind: RedisClientKill, about: "CLIENT KILL TYPE normal: all connections to Redis end", part: redisServer, needs: realRedis},
		{kind: RedisClientPause, about: "CLIENT PAUSE: Redis answers nobody", part: redisServer, needs: realRedis, least: 200 * ms, most: 1000 * ms, ofTTL: 0.6, stopsHolder: true},
		{kind: RedisRepliesLost, about: "every 20 ms a reply of Redis is lost with its connection", part: redisLink, least: 200 * ms, most: 2000 * ms},
		{kind: RedisRepliesLate, about: "replies of Redis are late", part: redisLink, least: 500 * ms, most: 2000 * ms, amount: 300 * ms},
		{kind: RedisBlackHole, about: "nothing gets through to Redis, and what was sent arrives afterwards", part: redisLink, least: 200 * ms, most: 500 * ms, ofTTL: 1.2, stopsHolder: true},
		{kind: RedisDisconnected, about: "connections to Redis end, and no new ones are taken", part: redisLink, least: 200 * ms, most: 2000 * ms},

		{kind: DBKill, about: "the database server is killed, and started again", part: dbServer, needs: realDB, most: 1000 * ms},
		{kind: DBStop, about: "the database server is stopped (SIGSTOP), and goes on later", part: dbServer, needs: realDB, least: 200 * ms, most: 2500 * ms},
		{kind: DBClientKill, about: "KILL of every connection to the database", part: dbServer, needs: realDB},
		{kind: DBReadOnly, about: "SET GLOBAL read_only", part: dbServer, needs: realDB, least: 200 * ms, most: 2000 * ms},
		{kind: DBSlowInserts, about: "a trigger makes each row of an INSERT slow", part: dbServer, needs: realDB, least: 500 * ms, most: 2500 * ms, amount: 100 * ms},
		{kind: DBTableFull, about: "a trigger refuses every INSERT: the table is full", part: dbServer, needs: realDB, least: 200 * ms, most: 2000 * ms},
		{kind: DBRepliesLost, about: "every 20 ms a reply of the database is lost with its connection", part: dbLink, needs: realDB, least: 200 * ms, most: 2000 * ms},
		{kind: DBRepliesLate, about: "replies of the database are late", part: dbLink, needs: realDB, least: 500 * ms, most: 2000 * ms, amount: 100 * ms},
		{kind: DBBlackHole, about: "nothing gets through to the database, and what was sent arrives afterwards", part: dbLink, needs: realDB, least: 200 * ms, most: 2500 * ms},
		{kind: DBDisconnected, about: "connections to the database end, and no new ones are taken", part: dbLink, needs: realDB, least: 200 * ms, most: 2000 * ms},
	}
}

// traitOf returns what is known of a kind. The second result is false for a name that
// is not that of a kind.
func traitOf(k Kind) (trait, bool) {
	all := traits()
	i := slices.IndexFunc(all, func(t trait) bool { return t.kind == k })
	if i < 0 {
		return trait{}, false
	}
	return all[i], true
}

// About says in a few words what a fault of the kind is.
func (k Kind) About() string {
	t, _ := traitOf(k)
	return t.about
}

// Kinds lists all kinds, and the part of them that cannot be done on embedded
// backends.
func Kinds(embeddedRedis, embeddedDB bool) (can, cannot []Kind) {
	for _, t := range traits() {
		if t.needs == realRedis && embeddedRedis || t.needs == realDB && embeddedDB {
			cannot = append(cannot, t.kind)
		} else {
			can = append(can, t.kind)
		}
	}
	return can, cannot
}

// ParseKinds returns the kinds with the names.
func ParseKinds(names []string) ([]Kind, error) {
	var kinds []Kind
	for _, name := range names {
		if _, found := traitOf(Kind(name)); !found {
			all, _ := Kinds(false, false)
			return nil, fmt.Errorf("%q is no fault (allowed: %s)", name, join(all))
		}
		kinds = append(kinds, Kind(name))
	}
	return kinds, nil
}

// join lists kinds in a text.
func join(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Fault is one fault that was drawn.
type Fault struct {
	Kind   Kind
	Victim int           // index of the shop, or of the one whose link it is; all: every one
	At     time.Duration // when it is to begin, after the sale did
	For    time.Duration // how long it lasts; 0: it is over as soon as it is done
	Amount time.Duration // how late replies are, or how long an INSERT takes
}

// all stands for every shop, as a Victim.
const all = -1

// StopsHolder reports whether the fault may hold up the write of somebody who holds a
// lock for longer than the ttl.
func (f Fault) StopsHolder(ttl time.Duration) bool {
	t, _ := traitOf(f.Kind)
	return t.stopsHolder && f.For >= ttl
}

// victim names what the fault strikes.
func (f Fault) victim() string {
	t, _ := traitOf(f.Kind)
	switch {
	case t.part == redisServer:
		return "redis"
	case t.part == dbServer:
		return "database"
	case f.Victim == all:
		return "all shops"
	}
	return fmt.Sprintf("shop %d", f.Victim+1)
}

// String says what the fault is, and how much of it.
func (f Fault) String() string {
	text := string(f.Kind)
	if f.Amount > 0 {
		text += fmt.Sprintf(" by %v", f.Amount)
	}
	return text
}

// Draw is what faults are drawn for.
type Draw struct {
	Seed     uint64
	Kinds    []Kind        // of which there has to be one
	Duration time.Duration // of the sale
	TTL      time.Duration
	Shops    int
}

// How much time there is between the end of a fault and the next one, and between the
// last one and the end of the sale.
const (
	leastGap = 1000 * time.Millisecond
	mostGap  = 2500 * time.Millisecond
	lastGap  = 1000 * time.Millisecond
)

// Faults draws the faults of a sale, in the order of their beginnings. No two are on at
// the same time. The same Draw gives the same faults. Each kind is drawn once before any
// is drawn again.
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
			f.For = max(0, d.Duration-lastGap-at) // a sale that is short has one fault at least
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

// between draws a time from least to most, in whole milliseconds.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	span := int64((most - least) / time.Millisecond)
	return least.Round(time.Millisecond) + time.Duration(rng.Int64N(span+1))*time.Millisecond
}
