package report_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/present"
)

// written returns the JSON of a report.
func written(t testing.TB, r report.Report) string {
	t.Helper()
	var b bytes.Buffer
	must(t, r.WriteJSON(&b))
	return b.String()
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	for name, want := range map[string]report.Report{"once": sale(), "repeated": repeated(), "cache": reading(),
		"open": opened(), "both": both(), "after a failover": afterFailover()} {
		want.Manifest.Format = 1
		got, err := report.Read(strings.NewReader(written(t, want)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, want %+v", name, got, want)
		}
	}
}

func TestReportThatIsNoneIsSaidInOneLine(t *testing.T) {
	whole := written(t, sale())
	changed := func(change func(m, row map[string]any)) string {
		var r map[string]any
		must(t, json.Unmarshal([]byte(whole), &r))
		change(r["manifest"].(map[string]any), r["rows"].([]any)[1].(map[string]any))
		out, err := json.Marshal(r)
		must(t, err)
		return string(out)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", " \n", "it is empty"},
		{"truncated", whole[:len(whole)/2], "ends in the middle of the JSON"},
		{"no JSON", "sold 1000\n", "it is not JSON: invalid character 's'"},
		{"two", whole + whole, "it is not JSON: invalid character '{' after top-level value"},
		{"a list", "[1]", "JSON array"},
		{"something else", `{"a":1}`, "it has no manifest"},
		{"a report of the lab", `{"manifest":{"redis":"r","db":"d"},"cells":[]}`, "it has no rows"},
		{"no rows", `{"manifest":{"format":1,"redis":"r","db":"d"},"rows":[]}`, "it has no rows"},
		{"another workload", `{"manifest":{"format":1,"workload":"lock"},"rows":[{"strategy":"v7_queue"}]}`,
			"its workload is lock"},
		{"another format", changed(func(m, _ map[string]any) { m["format"] = 2 }),
			"it has format 2, and this bench reads format 1"},
		{"a format of which more differs", `{"manifest":{"format":7},"rows":{"a":1}}`, "it has format 7"},
		{"words for numbers", changed(func(_, row map[string]any) { row["sold"] = "many" }),
			`it has a JSON string for "sold"`},
		{"no backends", changed(func(m, _ map[string]any) { delete(m, "redis") }), "does not name its redis"},
		{"a size below zero", changed(func(m, _ map[string]any) { m["instances"] = -1 }), "negative size"},
		{"rows of another load", changed(func(_, row map[string]any) { row["open"] = map[string]any{} }),
			"row 2: it and the manifest differ in whether"},
		{"no strategy", changed(func(_, row map[string]any) { delete(row, "strategy") }), "row 2: its strategy"},
		{"rows of another workload", changed(func(_, row map[string]any) { row["workload"] = "cache" }),
			"row 2: its workload is cache"},
		{"rows of another size", changed(func(_, row map[string]any) { row["requests"] = 7 }),
			"row 2: it has 7 requests, and the manifest says 5000"},
		{"rows of another stock", changed(func(_, row map[string]any) { row["stock"] = 7 }), "row 2: its stock is 7"},
		{"rows of a workload without a manifest", changed(func(m, row map[string]any) {
			m["also"] = []any{map[string]any{"redis": "r", "db": "d", "workload": "hold"}}
			row["workload"] = "cache"
		}), "row 2: its workload is cache, and the manifest says deduct"},
		{"two manifests for one workload", changed(func(m, _ map[string]any) {
			m["also"] = []any{map[string]any{"redis": "r", "db": "d", "workload": "deduct"}}
		}), `two manifests for workload "deduct"`},
		{"a second manifest without backends", changed(func(m,
			_ map[string]any) {
			m["also"] = []any{map[string]any{"workload": "hold"}}
		}), "does not name its redis"},
		{"a figure below zero", changed(func(_, row map[string]any) { row["p99_ms"] = -1 }), "row 2: p99_ms is -1"},
		{"a figure beyond all bounds", changed(func(_, row map[string]any) { row["throughput"] = 1e300 }),
			"row 2: throughput is 1e+300"},
		{"a name that moves the cursor", changed(func(_, row map[string]any) { row["strategy"] = "a\x1b[2J\nb" }),
			"row 2: \"a\ufffd[2J\ufffdb\" is not a valid name"},
		{"a version that does", changed(func(m, _ map[string]any) { m["go"] = "\x1b[2J" }), "is not a valid name"},
		{"a long name", changed(func(_, row map[string]any) { row["strategy"] = strings.Repeat("x", 501) }),
			"is not a valid name"},
	} {
		_, err := report.Read(strings.NewReader(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: %q, want one line with %q", tt.name, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	whole := written(f, reading())
	short := repeated()
	short.Rows = append(short.Rows[:1:1], short.Rows[5])
	for _, seed := range []string{whole, whole[:len(whole)/2], written(f, short), written(f, opened()),
		`{"manifest":{},"rows":[{}]}`, "[]", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := report.Read(strings.NewReader(text))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("the error is not one plain line: %q", err)
			}
			return
		}
		var table, again bytes.Buffer
		if err := r.WriteTable(&table, present.Style{}); err != nil {
			t.Error(err)
		}
		if err := r.WriteJSON(&again); err != nil {
			t.Error(err)
		}
		if _, err := report.Read(&again); err != nil {
			t.Errorf("what was read and written again cannot be read: %v", err)
		}
	})
}
