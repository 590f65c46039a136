package zklock

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"oversell/internal/locks/lease"
)

// root is the parent of all locks. It is never removed.
const root = "/oversell"

var anyone = zk.WorldACL(zk.PermAll)

// nameOf returns the path of a key's queue: a valid path under root, different for each key.
func nameOf(key string) string {
	var b strings.Builder
	b.WriteString(root + "/")
	for _, c := range []byte(key) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(":{}_-", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if key == "" {
		b.WriteByte('%')
	}
	return b.String()
}

// A node is one attempt's place in a lock's queue.
//
// Its name begins with a unique id. If the connection breaks after ZooKeeper has created the node
// but before it replied, create uses the id to find the node. The client library has a call for
// this, too. But if that call fails, it does not return the id, and the node blocks all others for
// as long as the session lives.
type node struct {
	session *session
	conn    *zk.Conn
	dir     string
	id      string
	begun   bool   // the node may exist
	path    string // set once the node is known to exist
	token   int64
}

func (n *session) place(key string) lease.Place {
	return &node{session: n, conn: n.server.conn, dir: nameOf(key), id: uuid.NewString() + "-"}
}

// errGone means that the node was deleted, or removed with its session.
var errGone = fmt.Errorf("zklock: the place in the queue is gone: %w", ErrLost)

// errLocked ends an attempt that does not wait for a held lock.
var errLocked = errors.New("zklock: locked")

// Acquire puts the node into the queue. If wait is set, it waits until the node is first.
func (n *node) Acquire(ctx context.Context, wait bool) (bool, error) {
	err := n.queue(ctx, wait)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	return err == nil, err
}

func (n *node) queue(ctx context.Context, wait bool) error {
	if err := n.create(ctx); err != nil {
		return err
	}
	var stat *zk.Stat
	err := n.again(ctx, func() (err error) {
		_, stat, err = n.conn.Get(n.path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return errGone
	case err != nil:
		return err
	case stat.EphemeralOwner != n.session.id: // the connection has a new session
		return lease.ErrReplaced
	}
	n.token = stat.Czxid
	return n.advance(ctx, wait)
}

func (n *node) Put() bool { return n.path != "" }

// Token returns the czxid of the holder's node, which is the number of the change that created the
// node. ZooKeeper numbers all its changes, and a node waits for every node created before it, so
// each holder's token is greater than all earlier ones.
//
// The number at the end of the node's name is not suitable. It counts the changes below the lock's
// path, and starts again at 0 when that path is removed and created again.
func (n *node) Token() int64 { return n.token }

func (n *node) Exists(context.Context) (bool, error) {
	there, _, err := n.conn.Exists(n.path)
	return there, err
}

// again calls ask until it gets an answer, which may be zk.ErrNoNode, or until ctx ends.
func (n *node) again(ctx context.Context, ask func() error) error {
	for ctx.Err() == nil {
		err := ask()
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if final(err) {
			return fmt.Errorf("zklock: %w", err)
		}
		if err := lease.Rest(ctx, n.session.TTL); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// final reports whether a request that failed with err would fail again if it were repeated.
func final(err error) bool {
	return slices.ContainsFunc([]error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrClosing,
		zk.ErrInvalidPath, zk.ErrBadArguments}, func(e error) bool { return errors.Is(err, e) })
}

// create creates the node exactly once, even if a reply is lost.
func (n *node) create(ctx context.Context) error {
	return n.again(ctx, func() error {
		if n.begun { // an earlier request got no answer
			mine, err := n.find()
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			if len(mine) > 0 {
				n.path = mine[0]
				return nil
			}
		}
		n.begun = true
		made, err := n.conn.Create(n.dir+"/"+n.id, nil, zk.FlagEphemeralSequential, anyone)
		switch {
		case err == nil:
			n.path = made
			return nil
		case errors.Is(err, zk.ErrNoNode):
			n.begun = false
			if err := n.makeDir(); err != nil {
				return err
			}
			return errAgain
		}
		return err
	})
}

var errAgain = errors.New("zklock: once more")

// makeDir creates the parent of the lock's nodes. The parent is a container: ZooKeeper removes it
// once it has become empty, usually within a minute. Containers need ZooKeeper 3.5.3 or later.
func (n *node) makeDir() error {
	c := n.conn
	_, err := c.CreateContainer(n.dir, nil, zk.FlagContainer, anyone)
	if errors.Is(err, zk.ErrNoNode) {
		if _, err := c.Create(root, nil, zk.FlagPersistent, anyone); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		_, err = c.CreateContainer(n.dir, nil, zk.FlagContainer, anyone)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// find returns the paths of all nodes that have the id of n. It asks the server to catch up first,
// because after a broken connection the client may be connected to a different server, which does
// not yet have the changes of the first one.
func (n *node) find() (mine []string, err error) {
	if _, err := n.conn.Sync(n.dir); err != nil {
		return nil, err
	}
	names, _, err := n.conn.Children(n.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, n.id) {
			mine = append(mine, n.dir+"/"+name)
		}
	}
	return mine, nil
}

// advance waits until no node is before n.
func (n *node) advance(ctx context.Context, wait bool) error {
	for {
		var names []string
		if err := n.again(ctx, func() (err error) {
			names, _, err = n.conn.Children(n.dir)
			return err
		}); err != nil {
			return fmt.Errorf("zklock: wait: %w", err)
		}
		before, err := predecessor(names, path.Base(n.path))
		switch {
		case err != nil:
			return err
		case before == "":
			return nil
		case !wait:
			return errLocked
		}
		if err := n.await(ctx, n.dir+"/"+before); err != nil {
			return err
		}
	}
}

// await waits until the node at p changes or is deleted, or the watch is lost.
func (n *node) await(ctx context.Context, p string) error {
	var changed <-chan zk.Event
	err := n.again(ctx, func() (err error) {
		_, _, changed, err = n.conn.GetW(p)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// predecessor returns the name whose number comes just before own's, or "" if own is the first.
func predecessor(names []string, own string) (before string, err error) {
	found := false
	for _, name := range names {
		switch {
		case name == own:
			found = true
		case number(name) < number(own) && (before == "" || number(name) > number(before)):
			before = name
		}
	}
	if !found {
		return "", errGone
	}
	return before, nil
}

// number returns the ten digits that ZooKeeper puts at the end of a name. They sort as
// strings.
func number(name string) string { return name[max(0, len(name)-10):] }

// Remove deletes the node if it exists. It retries until the node is gone or the source is closed, because a
// session that this process counts as lost may live on in ZooKeeper, with all its nodes.
func (n *node) Remove() error {
	if !n.begun {
		return nil
	}
	first, gone := true, false
	err := n.again(n.session.closing, func() error {
		err := n.delete()
		gone = first && errors.Is(err, zk.ErrNoNode) // if not first, an earlier attempt may have deleted it
		first = false
		return err
	})
	switch {
	case gone:
		return lease.ErrNotHeld
	case errors.Is(err, zk.ErrNoNode):
		return nil
	}
	return err
}

// delete tries once to delete the node. If the node's path is not known, delete looks for the node first.
func (n *node) delete() error {
	mine := []string{n.path}
	if n.path == "" {
		var err error
		if mine, err = n.find(); err != nil {
			return err
		}
	}
	for _, p := range mine {
		if err := n.conn.Delete(p, -1); err != nil && (n.path != "" || !errors.Is(err, zk.ErrNoNode)) {
			return err
		}
	}
	return nil
}
