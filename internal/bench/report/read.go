package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"oversell/internal/catalog"
)

// Bounds of a report that is read. 100 runs of 50 rows stay well within them.
const (
	maxReport   = 256 << 20 // bytes
	maxRead     = 100_000   // rows
	maxNameSize = 500       // bytes of a name or setting
)

// Read reads a report that WriteJSON wrote. It ignores the summary, which is computed
// from the rows. Its errors are one line each.
func Read(from io.Reader) (Report, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxReport+1))
	if err != nil {
		return Report{}, err
	}
	if len(text) > maxReport {
		return Report{}, fmt.Errorf("not a bench report: it is larger than %d MiB", maxReport>>20)
	}
	var r Report
	if err := unmarshal(text, &r); err != nil {
		return Report{}, fmt.Errorf("not a bench report: %w", err)
	}
	if r.Manifest.Format == 0 {
		r.Manifest.Format = format // the first format had no such field
	}
	if err := r.check(); err != nil {
		return Report{}, fmt.Errorf("not a bench report: %w", err)
	}
	return r, nil
}

// unmarshal reads a report in JSON. Its errors are brief.
func unmarshal(text []byte, r *Report) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("it is empty")
	}
	// The format decides whether the other fields can be read.
	var only struct {
		Manifest *struct {
			Format int `json:"format"`
		} `json:"manifest"`
	}
	err := json.Unmarshal(text, &only)
	if err == nil && only.Manifest != nil && only.Manifest.Format != format && only.Manifest.Format != 0 {
		return fmt.Errorf("it has format %d, and this bench reads format %d", only.Manifest.Format, format)
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(text)):
		return errors.New("the file ends in the middle of the JSON")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON: %s at byte %d", Printable(syntax.Error()), syntax.Offset)
	case errors.As(err, &kind):
		name := kind.Field[strings.LastIndex(kind.Field, ".")+1:]
		return fmt.Errorf("it has a JSON %s for %q at byte %d", Printable(kind.Value), Printable(name), kind.Offset)
	case err != nil:
		return errors.New(Printable(err.Error()))
	case only.Manifest == nil:
		return errors.New("it has no manifest")
	}
	return nil
}

// Printable replaces what is not printable, so that text from a file or a shop stays on
// one line and cannot control a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// check returns an error for a report that this bench cannot have written.
func (r Report) check() error {
	if w := r.Manifest.Workload; w == "lock" {
		return fmt.Errorf("its workload is %s, which compare does not read: see its table and summary", w)
	}
	switch {
	case len(r.Rows) == 0:
		return errors.New("it has no rows")
	case len(r.Rows) > maxRead:
		return fmt.Errorf("it has %d rows; allowed: %d", len(r.Rows), maxRead)
	}
	if err := r.Manifest.check(); err != nil {
		return fmt.Errorf("the manifest: %w", err)
	}
	for i, row := range r.Rows {
		if err := row.check(r.Manifest.of(row.Workload)); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return nil
}

// of returns the manifest in Also for a workload, or m if there is none.
func (m Manifest) of(w catalog.Workload) Manifest {
	for _, also := range m.Also {
		if also.Workload == string(w) {
			return also
		}
	}
	return m
}

func (m Manifest) check() error {
	seen := []string{m.Workload}
	for _, also := range m.Also {
		if len(also.Also) > 0 || slices.Contains(seen, also.Workload) {
			return fmt.Errorf("it has two manifests for workload %q, or one inside another",
				Printable(also.Workload[:min(len(also.Workload), 40)]))
		}
		seen = append(seen, also.Workload)
		if err := also.check(); err != nil {
			return err
		}
	}
	var wrong error
	fields(m, func(_ string, v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			wrong = cmp.Or(wrong, checkText(v.String()))
		case reflect.Slice:
			if texts, ok := v.Interface().([]string); ok {
				wrong = cmp.Or(wrong, checkText(texts...))
			}
		case reflect.Int, reflect.Int64:
			if v.Int() < 0 {
				wrong = cmp.Or(wrong, errors.New("it has a negative size"))
			}
		}
	})
	if m.Redis == "" || m.DB == "" {
		return errors.New("it does not name its redis and its database")
	}
	return wrong
}

// check returns an error for a row that no report with the manifest m can have.
func (r Row) check(m Manifest) error {
	names := []string{r.Strategy, string(r.Condition), string(r.Workload), string(r.Verdict)}
	if slices.Contains(names, "") {
		return errors.New("its strategy, condition, workload or verdict is missing")
	}
	if err := checkText(append(names, r.TTL, r.Duration)...); err != nil {
		return err
	}
	switch {
	case string(r.Workload) != m.Workload:
		return fmt.Errorf("its workload is %s, and the manifest says %s", r.Workload, m.Workload)
	case r.Stock != m.Stock && r.Workload == catalog.Deduct:
		return fmt.Errorf("its stock is %d, and the manifest says %d", r.Stock, m.Stock)
	case r.Requests != m.Requests && !r.spread(m):
		return fmt.Errorf("it has %d requests, and the manifest says %d", r.Requests, m.Requests)
	case (r.Open != nil) != (m.Rate > 0 || r.spread(m)):
		return errors.New("it and the manifest differ in whether the load was open")
	}
	for name, v := range r.figures() {
		if v < 0 && name != "lost_updates" || math.Abs(v) > math.MaxInt64 {
			return fmt.Errorf("%s is %v", name, v)
		}
	}
	return nil
}

// spread reports whether the row had an open load in a report of bursts, as rows under a
// failover do.
func (r Row) spread(m Manifest) bool {
	return r.Condition == catalog.Failover && r.Open != nil && m.Rate == 0
}

// checkText returns an error if one of the texts cannot be a name or a setting.
func checkText(texts ...string) error {
	for _, text := range texts {
		if len(text) > maxNameSize || text != Printable(text) {
			return fmt.Errorf("%q is not a valid name", Printable(text[:min(len(text), 40)]))
		}
	}
	return nil
}
