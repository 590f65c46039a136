package search

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"oversell/internal/fault"
)

type key struct {
	name  string
	kind  string        // string, list or hash: the locks and the stock use no other type
	words []string      // its value; in pairs if it is a hash
	left  time.Duration // remaining ttl; negative: the key has no ttl
}

// data holds the keys of Redis, sorted by name. It is immutable.
type data []key

// find returns a key. Its kind is "" if it does not exist.
func (d data) find(name string) key {
	i, ok := slices.BinarySearchFunc(d, name, func(k key, name string) int { return strings.Compare(k.name, name) })
	if !ok {
		return key{}
	}
	return d[i]
}

// after returns the data as it is after the time passed.
func (d data) after(passed time.Duration) data {
	var out data
	for _, k := range d {
		if k.left >= 0 {
			k.left -= passed
			if k.left <= 0 {
				continue
			}
		}
		out = append(out, k)
	}
	return out.earlier(passed)
}

// sameBut reports whether d and o are the same, apart from the ttls.
func (d data) sameBut(o data) bool { return slices.EqualFunc(d, o, key.has) }

// has reports whether two keys have the same name and value.
func (k key) has(o key) bool {
	return k.name == o.name && k.kind == o.kind && slices.Equal(k.words, o.words)
}

// transaction is the state of a connection between WATCH or MULTI and EXEC.
type transaction struct {
	sent  []fault.Command // sent on the connection so far
	stale bool            // a watched key was changed
}

// then returns the transaction after one more command on its connection.
func (t *transaction) then(cmd fault.Command) *transaction {
	switch {
	case cmd.Is("EXEC", "DISCARD", "UNWATCH"), t == nil && !cmd.Is("WATCH", "MULTI"):
		return nil
	case t == nil:
		return &transaction{sent: []fault.Command{cmd}}
	}
	return &transaction{sent: append(slices.Clone(t.sent), cmd), stale: t.stale}
}

// seeing returns the transaction after a command on another connection has changed the data.
func (t *transaction) seeing(before, after data) *transaction {
	if t == nil || t.stale || !t.sent[0].Is("WATCH") {
		return t
	}
	for _, name := range t.sent[0].Args[1:] {
		if !before.find(name).has(after.find(name)) {
			return &transaction{t.sent, true}
		}
	}
	return t
}

// redis is Redis as a function: it executes a command on given data and returns the new data. It is
// not safe for concurrent use.
type redis struct {
	m     *miniredis.Miniredis
	known *sync.Map // cached results by the text of questionOf, shared between workers
}

// newRedis starts a server in memory. close must be called.
func newRedis(known *sync.Map) (*redis, error) {
	m := miniredis.NewMiniRedis()
	conn, err := m.Dial() // starts the server without a listener
	if err != nil {
		return nil, err
	}
	return &redis{m, known}, conn.Close()
}

func (r *redis) close() { r.m.Close() }

type result struct {
	reply fault.Value
	data  data
}

// null is the reply to an aborted EXEC, and to a blocking command that timed out.
const null = "_\r\n"

// execute executes a command on a connection. The parameter in is the open transaction of the
// connection, or nil.
func (r *redis) execute(d data, cmd fault.Command, in *transaction) (result, error) {
	if in != nil && in.stale && cmd.Is("EXEC") {
		return result{fault.Value(null), d}, nil
	}
	sent := []fault.Command{cmd}
	if in != nil {
		sent = append(slices.Clone(in.sent), cmd)
	}
	question := questionOf(d, sent)
	if known, ok := r.known.Load(question); ok {
		return known.(result), nil
	}
	if err := r.load(d); err != nil {
		return result{}, err
	}
	reply := r.send(sent...)
	after, err := r.dump()
	if err == nil {
		r.known.Store(question, result{reply, after})
	}
	return result{reply, after}, err
}

// questionOf returns a text that contains everything that a result depends on: the data, and the
// commands on one connection.
func questionOf(d data, sent []fault.Command) string {
	var b strings.Builder
	for _, cmd := range sent {
		b.WriteString("\x02" + strings.Join(cmd.Args, "\x00"))
	}
	for _, k := range d {
		b.WriteString("\x01" + k.name + "\x00" + k.kind + "\x00" + strconv.FormatInt(int64(k.left), 10))
		for _, word := range k.words {
			b.WriteString("\x00" + word)
		}
	}
	return b.String()
}

func (r *redis) load(d data) error {
	r.m.FlushAll()
	r.m.SetTime(epoch)
	for _, k := range d {
		var err error
		switch k.kind {
		case "string":
			err = r.m.Set(k.name, k.words[0])
		case "list":
			_, err = r.m.Push(k.name, k.words...)
		case "hash":
			r.m.HSet(k.name, k.words...)
		}
		if err != nil {
			return fmt.Errorf("setting %s: %w", k.name, err)
		}
		if k.left >= 0 {
			r.m.SetTTL(k.name, k.left)
		}
	}
	return nil
}

func (r *redis) dump() (d data, err error) {
	for _, name := range r.m.Keys() { // sorted
		k := key{name: name, kind: r.m.Type(name), left: -1}
		if ttl := r.m.TTL(name); ttl > 0 {
			k.left = ttl
		}
		if k.words, err = r.words(k); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		d = append(d, k)
	}
	return d, nil
}

func (r *redis) words(k key) (words []string, err error) {
	switch k.kind {
	case "string":
		value, err := r.m.Get(k.name)
		return []string{value}, err
	case "list":
		words, err = r.m.List(k.name)
		return slices.Clone(words), err
	case "hash":
		fields, err := r.m.HKeys(k.name) // sorted
		for _, field := range fields {
			words = append(words, field, r.m.HGet(k.name, field))
		}
		return words, err
	}
	return nil, errors.New("the search does not know this kind of key")
}

// send sends commands on a new connection, and returns the last reply. It is safe for concurrent
// use.
func (r *redis) send(cmds ...fault.Command) fault.Value {
	var out bytes.Buffer
	conn := server.NewPeer(bufio.NewWriter(&out))
	conn.Resp3 = true // as in go-redis
	for _, cmd := range cmds {
		out.Reset()
		r.m.Server().Dispatch(conn, cmd.Args)
		conn.Flush()
	}
	return out.Bytes()
}
