package lockservers

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/locks/lease/leasetest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, leasetest.StopZooKeeper)) }

func TestWrongSpecs(t *testing.T) {
	for _, tt := range []struct {
		specs Specs
		need  catalog.Need
		is    error
		says  string
	}{
		{Specs{Redlock: "127.0.0.1:1"}, catalog.NeedsNodes, backend.ErrSpec, "names 1 node, but must name at least 3"},
		{Specs{Redlock: "a:1,redis://b:2,redis://a:1"}, catalog.NeedsNodes, backend.ErrSpec, "node 3 is named before"},
		{
			Specs{Redlock: "embedded,a:1,b:2"}, catalog.NeedsNodes, backend.ErrSpec,
			"of -redlock: node 1 is embedded, which must be the only value",
		},
		{Specs{Redlock: "a:1,b:2,c"}, catalog.NeedsNodes, backend.ErrSpec, "of -redlock: node 3 is no address"},
		{Specs{Redlock: ",,"}, catalog.NeedsNodes, backend.ErrSpec, "names 0 nodes"},
		{Specs{Redlock: "a:1,b:2,redis+sentinel://c:3/m"}, catalog.NeedsNodes, backend.ErrSpec, "node 3 is no address"},
		{Specs{Redlock: "a:1,b:2,http://c:3"}, catalog.NeedsNodes, backend.ErrSpec, ""},
		{Specs{Redlock: "rediss://u:secret@a:1,b:2,redis://c:port"}, catalog.NeedsNodes, backend.ErrSpec, ""},
		{Specs{Etcd: "nowhere"}, catalog.NeedsEtcd, backend.ErrSpec, "-etcd"},
		{Specs{ZooKeeper: "nowhere"}, catalog.NeedsZooKeeper, backend.ErrSpec, "-zookeeper"},
	} {
		s, err := New(t.Context(), tt.specs, tt.need)
		if !errors.Is(err, tt.is) || s != nil || !strings.Contains(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "-redis") {
			t.Errorf("%+v: got %v, want %v", tt.specs, err, tt.is)
		}
	}
	of := Specs{Redlock: "a", Etcd: "b", ZooKeeper: "c"}.Needs()
	if !slices.Equal(of, []catalog.Need{catalog.NeedsNodes, catalog.NeedsEtcd, catalog.NeedsZooKeeper}) {
		t.Errorf("the needs are checked in the order %v", of)
	}
}

// A process can start and sell while a minority of nodes is down.
func TestNodesMayBeAway(t *testing.T) {
	l, err := New(t.Context(), Specs{Redlock: "embedded"}, catalog.NeedsNodes)
	backendtest.Must(t, err)
	backendtest.CloseAfter(t, l)
	all, names, err := l.Open(t.Context(), catalog.NeedsNodes, catalog.NeedsRueidis)
	backendtest.Must(t, err)
	nodes := slices.Clone(all[catalog.NeedsNodes])
	if len(all) != 1 || len(nodes) != DefaultNodes || len(names) != 1 || l.Has(catalog.NeedsEtcd) {
		t.Fatalf("for redlock: %v, %v", all, names)
	}
	nodes[0], nodes[4] = "redis://127.0.0.1:1", "redis://127.0.0.1:2"
	if err := sells(t, clients(t, Running(Addresses{catalog.NeedsNodes: nodes})), "redlock"); err != nil {
		t.Errorf("with 3 of 5 nodes: %v", err)
	}
}

func TestLeaseIsWhatTheServerGives(t *testing.T) {
	etcd := Terms{Least: 2 * time.Second, Unit: time.Second}
	for _, tt := range []struct {
		terms     Terms
		ttl, want time.Duration
	}{
		{Terms{}, 300 * time.Millisecond, 300 * time.Millisecond},
		{etcd, 300 * time.Millisecond, 2 * time.Second},
		{etcd, 2 * time.Second, 2 * time.Second},
		{etcd, 2001 * time.Millisecond, 3 * time.Second},
		{Terms{Least: time.Second}, 300 * time.Millisecond, time.Second},
		{Terms{Least: time.Second}, 1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		if got := tt.terms.Lease(tt.ttl); got != tt.want {
			t.Errorf("%+v, ttl %v: a lease of %v, want %v", tt.terms, tt.ttl, got, tt.want)
		}
	}
}

// Ask returns the terms of the running servers.
func TestServersAreAskedForTheirTerms(t *testing.T) {
	terms, err := Ask(t.Context(), Addresses{catalog.NeedsEtcd: {leasetest.Etcd(t)}})
	backendtest.Must(t, err)
	if got := terms[catalog.NeedsEtcd]; got.Least != time.Second || got.Unit != time.Second || got.Slack < time.Second {
		t.Errorf("etcd: %+v", got)
	}
	terms, err = Ask(t.Context(), Addresses{catalog.NeedsZooKeeper: {leasetest.ZooKeeper(t)}})
	backendtest.Must(t, err)
	const lease = 1500 * time.Millisecond
	if got := terms[catalog.NeedsZooKeeper]; got.Least != time.Second || got.Lease(lease) != lease {
		t.Errorf("zookeeper: %+v", got)
	}
}
