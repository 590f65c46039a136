package payment

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// reborn starts a new provider on the same journal for each request. Faults stay switched on from
// one provider to the next.
type reborn struct {
	mu     sync.Mutex
	file   string
	faulty faulty
}

func (b *reborn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j, err := OpenJournal(b.file, quiet)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer j.Close()
	s := newServer(Config{Journal: j})
	s.faulty = &b.faulty
	s.ServeHTTP(w, r)
}

// open opens a journal, and closes it when the test ends.
func open(t *testing.T, name string) *Journal {
	t.Helper()
	j, err := OpenJournal(name, quiet)
	must(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// written writes a journal with a captured payment, a refused capture and a declined payment, and
// returns the file's name and lines.
func written(t *testing.T) (name string, lines []string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "ledger")
	j := open(t, name)
	defer j.Close() // so that the next process can open it
	s := newServer(Config{Journal: j})
	c := clientOf(t, s)
	p := authorised(t, c, "a")
	expect(t, c, capture(p.ID, "c"), Captured, nil)
	expect(t, c, capture(p.ID, "c2"), Captured, ErrConflict)
	must(t, c.SetFaults(t.Context(), Faults{DeclineEvery: 1}))
	expect(t, c, authorise(request("d")), Declined, ErrDeclined)
	text, err := os.ReadFile(name)
	must(t, err)
	return name, strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

// The next provider on the journal repeats all earlier answers, including refusals.
func TestJournalKeepsRefusals(t *testing.T) {
	name, _ := written(t)
	c := clientOf(t, newServer(Config{Journal: open(t, name)}))
	p := authorised(t, c, "b")
	wantLedger(t, c, Authorised, Captured, Declined, Authorised)
	expect(t, c, authorise(request("d")), Declined, ErrDeclined)
	first, err := c.Authorise(t.Context(), request("a"))
	if err != nil || first.ID == p.ID || first.Status != Authorised {
		t.Errorf("the first answer is %+v, %v", first, err)
	}
	expect(t, c, capture(first.ID, "c"), Captured, nil)
	_, err = c.Capture(t.Context(), first.ID, "c2")
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "it is captured") {
		t.Errorf("got %v", err)
	}
	wantLedger(t, c, Authorised, Captured, Declined, Authorised)
}

// A process may be killed after it has written any part of a line. The next provider drops that
// request, logs this, and continues.
func TestTornLastLineIsDropped(t *testing.T) {
	_, lines := written(t)
	whole := strings.Join(lines[:len(lines)-1], "")
	last := lines[len(lines)-1]
	for cut := 1; cut < len(last); cut++ {
		name := filepath.Join(t.TempDir(), "ledger")
		must(t, os.WriteFile(name, []byte(whole+last[:cut]), 0o600))
		var log bytes.Buffer
		j, err := OpenJournal(name, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatalf("after %d bytes: %v", cut, err)
		}
		c := clientOf(t, newServer(Config{Journal: j}))
		wantLedger(t, c, Authorised, Captured)
		authorised(t, c, "d") // the first request with this key was not answered
		must(t, j.Close())
		if !strings.Contains(log.String(), "not complete") {
			t.Errorf("after %d bytes the log says %q", cut, log.String())
		}
		wantLedger(t, clientOf(t, newServer(Config{Journal: open(t, name)})), Authorised, Captured, Authorised)
	}
}

// A journal that is damaged before its last line is refused, and not changed.
func TestDamagedJournalIsRefused(t *testing.T) {
	_, lines := written(t)
	for name, text := range map[string]string{
		"not JSON":        lines[0] + "x\n" + lines[1] + lines[2],
		"a line twice":    lines[0] + lines[0] + lines[1],
		"a line missing":  lines[0] + lines[3] + "\n",
		"another file":    "hello\nworld\n",
		"another's lines": `{"number":1}` + "\n" + lines[0],
		"an empty line":   "\n" + lines[0],
		"a secret":        "0123456789abcdef",
	} {
		file := filepath.Join(t.TempDir(), "ledger")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if j, err := OpenJournal(file, quiet); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("%s: the file was changed to %q, %v", name, now, err)
		}
	}
	if _, err := OpenJournal(t.TempDir(), quiet); err == nil {
		t.Error("a folder was opened")
	}
}

// If a change cannot be written to the journal, it is not made, and the request fails. All later
// requests fail, too, because the contents of the file are unknown.
func TestProviderDoesNothingThatItCannotRecord(t *testing.T) {
	for name, spoil := range map[string]func(j *Journal, name string) error{
		"the disk fails": func(j *Journal, _ string) error { return j.file.Close() },
		"another provider writes to it": func(_ *Journal, name string) error {
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString("{}\n")
				err = errors.Join(err, f.Close())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ledger")
			j := open(t, file)
			s := newServer(Config{Journal: j})
			events := 0
			s.book.happened = func(Event) { events++ }
			c := clientOf(t, s)
			p := authorised(t, c, "a")
			must(t, spoil(j, file))
			for range 2 {
				expect(t, c, capture(p.ID, "c"), "", ErrUnavailable)
			}
			wantLedger(t, c, Authorised)
			if now, err := c.Payment(t.Context(), p.ID); err != nil || now.Status != Authorised || events != 1 {
				t.Errorf("the payment is %+v, %v, with %d webhooks", now, err, events)
			}
		})
	}
}

// A second provider does not start on a journal that is in use: it could charge again for a key that
// the first provider has answered.
func TestALedgerIsForOneProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	j := open(t, name)
	if second, err := OpenJournal(name, quiet); !errors.Is(err, errInUse) {
		_ = second.Close()
		t.Errorf("opening it again: %v, want %v", err, errInUse)
	}
	must(t, j.Close())
	open(t, name)
}
