// Package stages has the teaching stages as subjects of package promises, and the table of
// which stage keeps which promise. Every cell of the table is a scenario that its test runs.
package stages

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/catalog"
	"oversell/internal/locks"
	"oversell/internal/locks/locktest/promises"
)

// All returns the teaching stages, in order. A stage without expiry ignores the ttl.
func All() []promises.Subject {
	var all []promises.Subject
	for _, name := range locks.Stages() {
		s, err := catalog.Strategies().Find(name)
		if err != nil {
			panic(err) // the catalog has every stage
		}
		d := s.Distributed(catalog.Options{})
		all = append(all, promises.Subject{
			Name: name, NotHeld: d.NotHeld[0], WithOwner: d.WithOwner,
			New: func(rdb redis.UniversalClient, key string, ttl time.Duration) promises.Lock {
				return s.Distributed(catalog.Options{Redis: rdb, TTL: ttl}).New(key)
			},
		})
	}
	return all
}

// keptBy returns for each promise, by its name, the stages that keep it.
func keptBy() map[string][]string {
	all := locks.Stages()
	from := func(stage int) []string { return all[stage-1:] }
	first := all[:1] // the lock of v1 never expires
	return map[string][]string{
		"exclusive":  from(1),
		"together":   from(1),
		"frank":      from(1),
		"cancelled":  from(1),
		"crash":      from(2),
		"foreign":    from(3),
		"atomic":     from(4),
		"reentrant":  from(5),
		"slow":       slices.Concat(first, from(6)),
		"told":       from(6),
		"waits":      from(7),
		"pause":      first,
		"fenced":     slices.Concat(first, from(8)),
		"lost-reply": from(9),
	}
}

// Keep reports whether the table says that a stage keeps a promise.
func Keep(stage string, p promises.Promise) bool { return slices.Contains(keptBy()[p.Name], stage) }

// WriteTable writes the table as Markdown.
func WriteTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| |")
	for _, stage := range locks.Stages() {
		fmt.Fprintf(&b, " %s |", stage)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(locks.Stages())) + "\n")
	for _, p := range promises.All() {
		fmt.Fprintf(&b, "| %s |", p.Says)
		for _, stage := range locks.Stages() {
			cell := "breaks"
			if Keep(stage, p) {
				cell = "holds"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
