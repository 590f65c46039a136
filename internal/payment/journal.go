package payment

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// Journal is a file in which a Server records its answers, so that after a crash it knows what it
// has charged. Each answer to a new idempotency key is a line of JSON, which is written to disk
// before the answer is sent. A Journal belongs to one Server in one process.
type Journal struct {
	file    *os.File
	size    int64
	records []record // the records that were read from the file
	broken  error    // the error after which nothing more is written
}

// record is a line of a Journal: the answer to the first request with an idempotency key.
type record struct {
	Key     string       `json:"key"`
	Request string       `json:"request"` // the operation and its arguments, joined by spaces
	Payment Payment      `json:"payment"` // the payment's state after the request
	Entry   *Entry       `json:"entry,omitempty"`
	Error   *problemText `json:"error,omitempty"`
}

var errInUse = errors.New("another process has it; give each provider a file of its own")

// OpenJournal reads a journal, or creates it. It fails if another process has the file open. A
// process that was killed may have left an incomplete last line. Such a line is dropped, because
// its request was never answered. Any other line that cannot be read is an error. The caller must
// close the journal after its Server.
func OpenJournal(name string, log *slog.Logger) (_ *Journal, err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	j := &Journal{file: file}
	defer func() {
		if err != nil {
			_ = file.Close() // nothing was written
		}
	}()
	err = lock(file) // before reading, because another process may be writing
	var info os.FileInfo
	if err == nil {
		info, err = file.Stat()
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		err = j.read()
	}
	if err == nil && j.size < info.Size() {
		log.Warn("the last line of the ledger is not complete and is dropped: its request was never answered",
			"file", name, "bytes", info.Size()-j.size)
		err = file.Truncate(j.size)
	}
	if err == nil {
		err = syncFolder(name)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger %s: %w", name, err)
	}
	return j, nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// read reads the records into j.records, and adds up the length of their lines in j.size.
func (j *Journal) read() error {
	in := bufio.NewReader(j.file)
	last := int64(0) // number of the last entry
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		if torn(line) {
			return nil
		}
		r, err := parseRecord(line)
		if err == nil && r.Entry != nil {
			if r.Entry.Number != last+1 {
				err = fmt.Errorf("entry %d follows entry %d", r.Entry.Number, last)
			}
			last = r.Entry.Number
		}
		if err != nil {
			return fmt.Errorf("line %d is not one of a ledger: %w", number, err)
		}
		j.records = append(j.records, r)
		j.size += int64(len(line))
	}
}

// torn reports whether a line is an incomplete record. Only the last line can be one. If the line
// does not begin like a record, the file is not a ledger, and must not be truncated.
func torn(line []byte) bool {
	const begin = `{"key":"`
	n := min(len(line), len(begin))
	return !bytes.HasSuffix(line, []byte("\n")) && string(line[:n]) == begin[:n]
}

func parseRecord(line []byte) (r record, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return record{}, err
	}
	if r.Key == "" || r.Request == "" {
		return record{}, errors.New("it has no key or no request")
	}
	return r, nil
}

// write appends a record, and returns when it is on disk. After an error the contents of the file
// are unknown, so nothing more is written until the journal is opened again.
func (j *Journal) write(r record) error {
	if j.broken == nil {
		j.broken = j.append(r)
	}
	return j.broken
}

func (j *Journal) append(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	info, err := j.file.Stat()
	if err == nil && info.Size() != j.size {
		err = errors.New("another process has changed it")
	}
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	j.size += int64(len(line)) + 1
	return nil
}

// syncFolder syncs the folder of a new file, so that the file's name is as durable as its contents.
func syncFolder(name string) error {
	if runtime.GOOS == "windows" { // Windows cannot sync a folder
		return nil
	}
	folder, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
