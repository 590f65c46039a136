package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/locks/lease"
)

// errGone means that somebody else deleted the waiter's key.
var errGone = fmt.Errorf("the key in the queue is gone: %w", ErrLost)

// A place is one contender's place in etcd's queue for a lock: a key that is never
// used again, whether the contender gets the lock or not.
type place struct {
	session *session
	prefix  string // common prefix of all keys of the lock
	key     string
	rev     int64 // the revision that created the key, or 0
}

func (n *session) place(key string) lease.Place {
	prefix := url.PathEscape(key) + "/" // no lock's prefix is a prefix of another lock's
	return &place{session: n, prefix: prefix, key: fmt.Sprintf("%s%x-%d", prefix, int64(n.id), n.places.Add(1))}
}

func (p *place) Acquire(ctx context.Context, wait bool) (acquired bool, err error) {
	if wait {
		err = p.queue(ctx)
		acquired = err == nil
	} else {
		acquired, err = p.try(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("etcdlock: %w", err)
	}
	return acquired, nil
}

func (p *place) Put() bool { return p.rev != 0 }

// Token returns the revision at which the holder's key was created. etcd numbers all its changes,
// and a key waits for every key created before it, so each holder's token is greater than all
// earlier ones. If the guarded data is in etcd too, the transaction that writes it can compare the
// token with the revision of the holder's key.
func (p *place) Token() int64 { return p.rev }

func (p *place) Exists(ctx context.Context) (bool, error) {
	r, err := p.session.client.Get(ctx, p.key, clientv3.WithCountOnly())
	return err == nil && r.Count > 0, err
}

// try puts the key if the lock has no other key. If it does have another key, try leaves nothing behind.
func (p *place) try(ctx context.Context) (bool, error) {
	none := clientv3.Compare(clientv3.CreateRevision(p.prefix).WithPrefix(), "=", 0)
	_, err := p.put(ctx, none)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// queue puts the key, and waits until it is the oldest.
func (p *place) queue(ctx context.Context) error {
	absent := clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0)
	var before string
	err := p.session.retry(ctx, func(ctx context.Context) (err error) {
		before, err = p.put(ctx, absent)
		return err
	})
	for err == nil && before != "" {
		before, err = p.outlast(ctx, before)
	}
	return err
}

// put puts the key if the condition on is true, and returns the preceding key. It also succeeds if an
// earlier attempt has put the key and only the reply was lost. errGone means that the key does not exist.
//
// A request that got no reply may be executed later, after the key was deleted. So put retires the
// session after such a failure: the holds of the session remain, but once the last of them is
// released the lease is revoked, and no key can be created with it afterwards.
func (p *place) put(ctx context.Context, on clientv3.Cmp) (before string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	r, err := p.session.client.Txn(ctx).If(on).
		Then(clientv3.OpPut(p.key, "", clientv3.WithLease(p.session.id)), clientv3.OpGet(p.prefix, lastTwo()...)).
		Else(clientv3.OpGet(p.key)).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		p.session.End(errUnknown)
		return "", err
	case err != nil:
		p.session.Retire()
		return "", err
	case r.Succeeded:
		p.rev = r.Header.Revision
		return p.before(r.Responses[1].GetResponseRange().Kvs)
	}
	found := r.Responses[0].GetResponseRange().Kvs
	if len(found) == 0 {
		return "", errGone
	}
	p.rev = found[0].CreateRevision
	return p.look(ctx)
}

// lastTwo returns options that ask for the two most recently created keys.
func lastTwo() []clientv3.OpOption {
	return append(clientv3.WithLastCreate(), clientv3.WithLimit(2), clientv3.WithKeysOnly())
}

// look asks etcd for the key before p's own. It returns "" if p's own key is the oldest.
func (p *place) look(ctx context.Context) (before string, err error) {
	var r *clientv3.GetResponse
	err = p.session.retry(ctx, func(ctx context.Context) (err error) {
		r, err = p.session.client.Get(ctx, p.prefix, append(lastTwo(), clientv3.WithMaxCreateRev(p.rev))...)
		return err
	})
	if err != nil {
		return "", err
	}
	return p.before(r.Kvs)
}

// before returns the key before p's own, or "", from the last two keys up to p's own.
func (p *place) before(kvs []*mvccpb.KeyValue) (string, error) {
	switch {
	case len(kvs) == 0 || string(kvs[0].Key) != p.key:
		return "", errGone
	case len(kvs) == 1:
		return "", nil
	}
	return string(kvs[1].Key), nil
}

// outlast waits until the key before is deleted, and then returns the new key before p's own.
//
// The watch does not start from a given revision: if that were a past revision, such as that of the
// reply that named before, the server would serve the watch only every 100 ms (23 hand-overs a
// second instead of more than 1000). The watch therefore misses earlier events, and outlast looks
// up the preceding key again once the watch is created. It also does so once per ttl, because a
// watch on an unreachable server reports nothing.
func (p *place) outlast(ctx context.Context, before string) (string, error) {
	round, cancel := context.WithTimeout(ctx, p.session.TTL)
	defer cancel()
	watch := p.session.client.Watch(round, before, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
	told := next(round, watch)
	if told.Created && told.Err() == nil {
		if now, err := p.look(ctx); err != nil || now != before {
			return now, err
		}
		told = next(round, watch)
	}
	if len(told.Events) == 0 { // the watch broke or was silent for a ttl
		_ = lease.Rest(ctx, p.session.TTL) // look returns the error of ctx
	}
	return p.look(ctx)
}

// next returns the watch's next response, or an empty one when ctx ends.
func next(ctx context.Context, watch clientv3.WatchChan) clientv3.WatchResponse {
	select {
	case told := <-watch:
		return told
	case <-ctx.Done():
		return clientv3.WatchResponse{}
	}
}

// Remove deletes the key. It returns lease.ErrNotHeld if the key was already deleted.
func (p *place) Remove() error {
	tries, deleted := 0, int64(0)
	err := p.session.retry(p.session.Ctx, func(ctx context.Context) error {
		tries++
		r, err := p.session.client.Delete(ctx, p.key)
		if err == nil {
			deleted = r.Deleted
		}
		return err
	})
	switch {
	case err != nil: // the key will be deleted with the lease
		p.session.Retire()
		return fmt.Errorf("etcdlock: unlock: %w", err)
	case deleted == 0 && tries == 1: // after several tries, an earlier one may have deleted it
		return lease.ErrNotHeld
	}
	return nil
}
