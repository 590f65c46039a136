package report

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"oversell/internal/present"
)

// File is a report and the name of its file.
type File struct {
	Name string
	Report
}

// free lists the settings in which reports may differ, since most comparisons are of two builds.
// All other settings must agree, such as the backends, their versions and the sizes.
func free() []string {
	return append(told(), "id", "started", "targets", "repeat", "planned", "seed", "flags", "also")
}

// told lists the free settings that are shown if they differ, because they may explain other
// differences.
func told() []string { return []string{"os", "cpus", "version", "retry"} }

// differing lists the settings in which two manifests differ, with both values. It considers only
// settings whose names the function among accepts.
func differing(a, b Manifest, among func(name string) bool) string {
	other := make(map[string]string)
	fields(b, func(name string, v reflect.Value) { other[name] = fmt.Sprint(v) })
	var all []string
	fields(a, func(name string, v reflect.Value) {
		if x, y := fmt.Sprint(v), other[name]; x != y && among(name) {
			all = append(all, fmt.Sprintf("%s (%s, %s)", strings.ReplaceAll(name, "_", " "), x, y))
		}
	})
	return strings.Join(all, ", ")
}

// fields calls f with the JSON name of each field of a struct, including those of embedded structs. A
// nil pointer has no fields.
func fields(of any, f func(name string, v reflect.Value)) {
	all := reflect.Indirect(reflect.ValueOf(of))
	if !all.IsValid() {
		return
	}
	for field, v := range all.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			fields(v.Interface(), f)
		case name != "" && name != "-":
			f(name, v)
		}
	}
}

// pair holds two groups to compare. Tables show it under the name of the new group.
type pair struct{ old, now Group }

// CompareFiles compares the rows that both reports have, and writes what changed: for each figure a
// table of all rows, and then the changed verdicts. It is an error if the reports have
// different backends, versions or sizes, or have no row in common.
func CompareFiles(w io.Writer, older, newer File) error {
	older.Report, newer.Report = older.withoutPorts(), newer.withoutPorts()
	if diff := disagree(older.Report, newer.Report); diff != "" {
		return fmt.Errorf("%s and %s cannot be compared: they differ in %s", older.Name, newer.Name, diff)
	}
	var pairs []pair
	var alone string // names the groups that are in only one of the reports
	rest := newer.groups()
	for _, g := range older.groups() {
		i := slices.IndexFunc(rest, func(h Group) bool { return h.Key == g.Key })
		if i < 0 {
			alone += g.in(present.Style{}) + " is only in " + older.Name + ".\n"
			continue
		}
		pairs = append(pairs, pair{g, rest[i]})
		rest = slices.Delete(rest, i, i+1)
	}
	for _, g := range rest {
		alone += g.in(present.Style{}) + " is only in " + newer.Name + ".\n"
	}
	if len(pairs) == 0 {
		return fmt.Errorf("%s and %s cannot be compared: they have no row in common", older.Name, newer.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "old: %s\nnew: %s\n%s", older.title(), newer.title(), ranOn(older.Manifest))
	shown := func(name string) bool { return slices.Contains(told(), name) }
	if diff := differing(older.Manifest, newer.Manifest, shown); diff != "" {
		fmt.Fprintf(&b, "they differ in %s\n", diff)
	}
	older.tables(&b, pairs, func(f figure, t *present.Table[pair]) {
		f.estimate("old", func(p pair) Group { return p.old }, t)
		f.estimate("new", func(p pair) Group { return p.now }, t)
		t.Number("change", func(p pair) string { return p.difference(f, change) })
	})
	b.WriteString("\n" + verdicts(pairs) + alone + older.unusualLeases() + newer.unusualLeases())
	return writeComparison(w, &b, conclusion(pairs))
}

// withoutPorts returns the report without the addresses of the servers that its bench started:
// their ports differ from run to run.
func (r Report) withoutPorts() Report {
	started := func(flag string) bool {
		return slices.ContainsFunc(r.Manifest.Flags,
			func(given string) bool { return strings.HasPrefix(given, flag+"=local") })
	}
	redis, db := started("-redis"), started("-db")
	hide := func(m *Manifest) {
		if redis {
			m.Redis = address.ReplaceAllString(m.Redis, " (local)")
		}
		if db {
			m.DB = address.ReplaceAllString(m.DB, " (local)")
		}
	}
	hide(&r.Manifest)
	r.Manifest.Also = slices.Clone(r.Manifest.Also)
	for i := range r.Manifest.Also {
		hide(&r.Manifest.Also[i])
	}
	return r
}

// address matches the address in the name of a server.
var address = regexp.MustCompile(` at \S+`)

// disagree names the settings in which parts with the same workload should agree but do not. If the
// reports have no workload in common, it names the workloads.
func disagree(a, b Report) string {
	common := false
	for _, x := range a.Parts() {
		for _, y := range b.Parts() {
			if x.Manifest.Workload != y.Manifest.Workload {
				continue
			}
			common = true
			diff := differing(x.Manifest, y.Manifest, func(name string) bool {
				return !slices.Contains(free(), name) || name == "seed" && x.Manifest.Items > 0 // decides who buys what
			})
			if diff != "" {
				return diff
			}
		}
	}
	if common {
		return ""
	}
	return fmt.Sprintf("workload (%s, %s)", a.Manifest.Workload, b.Manifest.Workload)
}

// CompareStrategies compares each strategy of a report with the first one under the same condition,
// and writes the differences. It is an error if no condition has two strategies.
func CompareStrategies(w io.Writer, f File) error {
	first := make(map[Key]Group)
	var pairs []pair
	for _, g := range f.groups() {
		k := g.Key
		k.Strategy = ""
		base, known := first[k]
		if !known {
			base, first[k] = g, g
		}
		pairs = append(pairs, pair{base, g})
	}
	if len(pairs) == len(first) {
		return fmt.Errorf("the rows of %s cannot be compared: there is no condition with two strategies", f.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", f.title(), ranOn(f.Manifest))
	f.tables(&b, pairs, func(of figure, t *present.Table[pair]) {
		of.estimate("median", func(p pair) Group { return p.now }, t)
		t.Number("vs first", func(p pair) string {
			if p.old.Key == p.now.Key {
				return ""
			}
			return p.difference(of, ratio)
		})
	})
	if leases := f.unusualLeases(); leases != "" {
		b.WriteString("\n" + leases)
	}
	return writeComparison(w, &b, "\n"+f.Headline(present.Style{}))
}

// figure is a figure to compare.
type figure struct {
	name   string // in Group.Figures
	title  string
	format string // of a value
}

func compared(m Manifest) []figure {
	throughput, latency := "units sold per second", "latency"
	switch m.kind() {
	case reads:
		throughput = "values read per second"
	case held:
		return []figure{
			{"throughput", throughput, "%.0f"},
			{"p50_ms", "p50 latency of holding and paying, ms", "%.1f"},
			{"p99_ms", "p99 latency of holding and paying, ms", "%.1f"},
			{"sellable_after_s", "seconds from the expiry of a hold until its units could be sold again", "%.2f"},
			{"agrees_after_s", "seconds from the end of the load until everything agreed", "%.2f"},
		}
	}
	if m.Rate > 0 {
		latency = "response time"
	}
	list := []figure{
		{"throughput", throughput, "%.0f"},
		{"p50_ms", "p50 " + latency + ", ms", "%.1f"},
		{"p99_ms", "p99 " + latency + ", ms", "%.1f"},
		{"redis_commands", "Redis commands per request", "%.2f"},
	}
	if m.Rate > 0 {
		list = append(list, figure{"dropped", "requests dropped", "%.0f"})
	}
	return list
}
