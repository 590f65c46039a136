package lockservers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
)

const (
	// DefaultNodes is the number of nodes that "embedded" and "local" start for Redlock. The
	// description of Redlock uses the same number.
	DefaultNodes = 5

	// MinNodes is the smallest number of nodes that still has a majority when one node is lost.
	MinNodes = 3
)

// nodes splits the value of -redlock into a value of -redis for each node.
func nodes(spec string) ([]string, error) {
	if spec == embedded || spec == own {
		return slices.Repeat([]string{spec}, DefaultNodes), nil
	}
	var all []string
	for node := range strings.SplitSeq(spec, ",") {
		if node = strings.TrimSpace(node); node == "" {
			continue
		}
		if !strings.Contains(node, "://") {
			node = "redis://" + node
		}
		if wrong := wrongNode(node, all); wrong != "" {
			return nil, fmt.Errorf("%w of -redlock: node %d is %s", backend.ErrSpec, len(all)+1, wrong)
		}
		all = append(all, node)
	}
	if len(all) < MinNodes {
		plural := "s"
		if len(all) == 1 {
			plural = ""
		}
		return nil, fmt.Errorf("%w of -redlock: it names %d node%s, but must name at least %d, separated by commas; "+
			"also allowed: %s, %s", backend.ErrSpec, len(all), plural, MinNodes, embedded, own)
	}
	return all, nil
}

// wrongNode returns what is wrong with a node, or "". The list before contains the nodes that come
// before it. wrongNode does not repeat the error of SingleAddr, because that error lists the values
// of a different flag, -redis.
func wrongNode(node string, before []string) string {
	if word := strings.TrimPrefix(node, "redis://"); word == embedded || word == own {
		return word + ", which must be the only value"
	}
	_, err := backend.SingleAddr(node)
	sentinels := errors.Is(err, backend.ErrNotSingle) && !strings.HasPrefix(node, "rediss://")
	if errors.Is(err, backend.ErrSpec) || sentinels {
		return fmt.Sprintf("no address of a Redis; allowed: HOST:PORT, redis://…, rediss://…, and alone: %s, %s",
			embedded, own)
	}
	if slices.Contains(before, node) {
		return "named before; each must be a server of its own"
	}
	return ""
}

// serveNodes starts the nodes of Redlock, which are independent of each other, or connects to the user's own.
func serveNodes(ctx context.Context, spec string) (*server, error) {
	specs, err := nodes(spec)
	if err != nil {
		return nil, err
	}
	started := make([]*backend.Server, len(specs))
	var g errgroup.Group
	for i, one := range specs {
		g.Go(func() (err error) {
			started[i], err = backend.ServeRedis(ctx, one)
			return err
		})
	}
	err = g.Wait()
	s := &server{name: fmt.Sprintf("redlock: %d nodes", len(specs)), ended: func() error { return nil }}
	if spec == embedded || spec == own {
		s.name += " (" + spec + ")"
	}
	s.stop = func() (err error) {
		for _, node := range started { // Close does nothing for a node that did not start: it is nil
			err = errors.Join(err, node.Close())
		}
		return err
	}
	if err == nil {
		for _, node := range started {
			s.addresses = append(s.addresses, node.URL)
		}
		err = reachable(ctx, s.addresses)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the nodes of -redlock: %w", err), s.Close())
	}
	return s, nil
}

// reachable returns an error unless a majority of the nodes answers.
func reachable(ctx context.Context, nodes []string) error {
	errs := make([]error, len(nodes))
	var dialling sync.WaitGroup
	for i, url := range nodes {
		dialling.Go(func() {
			rdb, err := backend.DialRedis(ctx, url, 1)
			if err == nil {
				err = rdb.Close()
			}
			errs[i] = err
		})
	}
	dialling.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) <= (len(nodes)-1)/2 {
		return nil
	}
	return fmt.Errorf("%d of %d do not answer, and a majority must: %w", len(errs), len(nodes), errs[0])
}
