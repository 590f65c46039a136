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
	kind  string
	words []string      // its value; of a hash or a sorted set in pairs
	left  time.Duration // of its ttl; negative: it stays
}

// data is what Redis has, by name. It is not changed once it is made.
type data []key

// find returns a key; its kind is "" if it is not there.
func (d data) find(name string) key {
	i, ok := slices.BinarySearchFunc(d, name, func(k key, name string) int { return strings.Compare(k.name, name) })
	if !ok {
		return key{}
	}
	return d[i]
}

// after is the data once that much time has passed.
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

// sameBut reports whether two are the same but for what is left of the ttls.
func (d data) sameBut(o data) bool {
	return slices.EqualFunc(d, o, func(a, b key) bool {
		return a.name == b.name && a.kind == b.kind && slices.Equal(a.words, b.words)
	})
}

// transaction is what Redis knows of a connection between WATCH or MULTI and EXEC.
type transaction struct {
	sent  []fault.Command // so far
	stale bool            // a watched key was changed
}

// executor is Redis as a function: it executes a command on given data, and returns what
// there is then. It is for one goroutine.
type executor struct {
	m     *miniredis.Miniredis
	known *sync.Map // the results, by what they depend on; for several executors
}

// newExecutor starts a server in memory. close must be called.
func newExecutor(known *sync.Map) (*executor, error) {
	m := miniredis.NewMiniRedis()
	conn, err := m.Dial() // starts it, without a listener
	if err != nil {
		return nil, err
	}
	return &executor{m, known}, conn.Close()
}

func (e *executor) close() { e.m.Close() }

var errKind = errors.New("the search does not know this kind of key")

func (e *executor) load(d data) error {
	e.m.FlushAll()
	e.m.SetTime(epoch)
	for _, k := range d {
		if err := e.set(k); err != nil {
			return fmt.Errorf("setting %s: %w", k.name, err)
		}
		if k.left >= 0 {
			e.m.SetTTL(k.name, k.left)
		}
	}
	return nil
}

func (e *executor) set(k key) (err error) {
	switch k.kind {
	case "string":
		return e.m.Set(k.name, k.words[0])
	case "list":
		_, err = e.m.Push(k.name, k.words...)
	case "hash":
		e.m.HSet(k.name, k.words...)
	case "set":
		_, err = e.m.SetAdd(k.name, k.words...)
	case "zset":
		for pair := range slices.Chunk(k.words, 2) {
			score, _ := strconv.ParseFloat(pair[1], 64) // as dump wrote it
			_, err = e.m.ZAdd(k.name, score, pair[0])
		}
	default:
		err = errKind
	}
	return err
}

func (e *executor) dump() (data, error) {
	var d data
	for _, name := range e.m.Keys() {
		k := key{name: name, kind: e.m.Type(name), left: -1}
		if ttl := e.m.TTL(name); ttl > 0 {
			k.left = ttl
		}
		if err := e.read(&k); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		d = append(d, k)
	}
	slices.SortFunc(d, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return d, nil
}

func (e *executor) read(k *key) (err error) {
	switch k.kind {
	case "string":
		var value string
		value, err = e.m.Get(k.name)
		k.words = []string{value}
	case "list":
		k.words, err = e.m.List(k.name)
		k.words = slices.Clone(k.words)
	case "hash":
		var fields []string
		fields, err = e.m.HKeys(k.name) // sorted
		for _, field := range fields {
			k.words = append(k.words, field, e.m.HGet(k.name, field))
		}
	case "set":
		k.words, err = e.m.SMembers(k.name) // sorted
	case "zset":
		var members []string
		members, err = e.m.ZMembers(k.name) // by score
		for _, member := range members {
			score, _ := e.m.ZScore(k.name, member)
			k.words = append(k.words, member, strconv.FormatFloat(score, 'g', -1, 64))
		}
	default:
		err = errKind
	}
	return err
}

type result struct {
	reply  fault.Value
	data   data
	tx     *transaction   // of its connection
	others []*transaction // of the other connections
}

// execute executes a command on a connection that is in a transaction, or in none: nil.
// Others are the transactions of other connections.
func (e *executor) execute(d data, cmd fault.Command, in *transaction, others []*transaction) (result, error) {
	question := ask(d, cmd, in, others)
	if r, ok := e.known.Load(question); ok {
		return r.(result), nil
	}
	r, err := e.answer(d, cmd, in, others)
	if err == nil {
		e.known.Store(question, r)
	}
	return r, err
}

// ask is what a result depends on.
func ask(d data, cmd fault.Command, in *transaction, others []*transaction) string {
	var b strings.Builder
	for _, arg := range cmd.Args {
		b.WriteString(arg + "\x00")
	}
	for _, k := range d {
		b.WriteString("\x01" + k.name + "\x00" + k.kind + "\x00" + strconv.FormatInt(int64(k.left), 10))
		for _, word := range k.words {
			b.WriteString("\x00" + word)
		}
	}
	for _, t := range append([]*transaction{in}, others...) {
		b.WriteString("\x02")
		if t == nil {
			continue
		}
		b.WriteString(strconv.FormatBool(t.stale))
		for _, sent := range t.sent {
			b.WriteString("\x01" + strings.Join(sent.Args, "\x00"))
		}
	}
	return b.String()
}

func (e *executor) answer(d data, cmd fault.Command, in *transaction, others []*transaction) (r result, err error) {
	if err := e.load(d); err != nil {
		return r, err
	}
	mine := e.connect()
	for i, sent := range in.list() {
		e.send(mine, sent)
		if i == 0 && in.stale {
			e.touch(sent.Args[1])
		}
	}
	var watching []*peer
	for _, t := range others {
		p := e.connect()
		for _, sent := range t.list() {
			if sent.Is("WATCH") {
				e.send(p, sent)
			}
		}
		watching = append(watching, p)
	}
	r.reply, r.tx = e.send(mine, cmd), in.then(cmd)
	if r.data, err = e.dump(); err != nil {
		return r, err
	}
	for i, t := range others {
		e.send(watching[i], fault.NewCommand("MULTI"))
		if t != nil && e.send(watching[i], fault.NewCommand("EXEC")).String() == "nil" {
			t = &transaction{t.sent, true}
		}
		r.others = append(r.others, t)
	}
	return r, nil
}

type peer struct {
	*server.Peer
	out *bytes.Buffer
}

func (e *executor) connect() *peer {
	out := new(bytes.Buffer)
	p := &peer{server.NewPeer(bufio.NewWriter(out)), out}
	p.Resp3 = true // as go-redis has it
	return p
}

// touch writes a key as it is, so that those that watch it find it changed.
func (e *executor) touch(name string) {
	value, err := e.m.Get(name)
	if err != nil {
		_ = e.m.Set(name, "")
		e.m.Del(name)
		return
	}
	ttl := e.m.TTL(name)
	_ = e.m.Set(name, value)
	if ttl > 0 {
		e.m.SetTTL(name, ttl)
	}
}

func (t *transaction) list() []fault.Command {
	if t == nil {
		return nil
	}
	return t.sent
}

// then is the transaction after one more command.
func (t *transaction) then(cmd fault.Command) *transaction {
	switch {
	case cmd.Is("EXEC", "DISCARD", "UNWATCH"):
		return nil
	case t == nil && !cmd.Is("WATCH", "MULTI"):
		return nil
	case t == nil:
		return &transaction{sent: []fault.Command{cmd}}
	}
	return &transaction{sent: append(slices.Clone(t.sent), cmd), stale: t.stale}
}

func (e *executor) send(p *peer, cmd fault.Command) fault.Value {
	p.out.Reset()
	e.m.Server().Dispatch(p.Peer, cmd.Args)
	p.Flush()
	return bytes.Clone(p.out.Bytes())
}
