//go:build js

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall/js"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/lab/show"
	"oversell/internal/message"
)

// main calls the global JavaScript function labReady with a function that answers questions. The
// answering function takes a question as JSON and a callback, which receives an HTTP status and the
// reply as JSON. The program runs until a question asks it to end.
func main() {
	end := make(chan struct{})
	ask := js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, reply := args[0].String(), args[1]
		go func() { // nothing else can run before the callback returns
			var q question
			var status int
			var answer string
			if err := json.Unmarshal([]byte(text), &q); err != nil {
				status, answer = refused(statusInvalid, "invalid", message.Newf("reading the question: %v", err))
			} else if q.End {
				close(end)
				return
			} else {
				status, answer = q.answer()
			}
			reply.Invoke(status, answer)
		}()
		return nil
	})
	js.Global().Call("labReady", ask)
	<-end
}

// question asks for a schedule, or for a cell if Anomaly is set.
type question struct {
	lab.Schedule
	Anomaly string `json:"anomaly"`
	End     bool   `json:"end"` // end the program; there is no reply
}

// answer returns the reply to a question.
func (q question) answer() (status int, reply string) {
	var found any
	var err error
	if q.Anomaly == "" {
		found, err = lab.Play(q.Schedule)
	} else {
		found, err = cell(q.Anomaly, q.Strategy)
	}
	text, why := json.Marshal(found)
	refusal, known := errors.AsType[lab.Refusal](err)
	switch {
	case known:
		return refused(statusInvalid, "invalid", refusal.Why)
	case errors.Is(err, errElsewhere):
		return refused(statusNotFound, "not_in_browser", message.Of(err))
	case err != nil || why != nil:
		return refused(statusFailed, "lab_failed", message.Of(errors.Join(err, why)))
	}
	return statusOK, string(text)
}

// refused returns a reply in the form in which a shop reports problems.
func refused(status int, code string, detail message.Message) (int, string) {
	// Marshaling strings cannot fail.
	text, _ := json.Marshal(struct {
		Status  int             `json:"status"`
		Code    string          `json:"code"`
		Detail  string          `json:"detail"`
		Message message.Message `json:"message,omitzero"`
	}{status, code, detail.String(), detail})
	return status, string(text)
}

// The statuses, as in package http, which would be large to link in.
const (
	statusOK       = 200
	statusInvalid  = 400
	statusNotFound = 404
	statusFailed   = 500
)

// errElsewhere is returned for a cell that cannot run in a browser.
var errElsewhere = errors.New("this cell cannot run in a browser")

// cell runs one cell as a shop does. The program must not run a second cell: see lab.InVirtualTime.
func cell(anomaly, strategy string) (show.Told, error) {
	subjects, err := lab.FindSubjects(lab.Subjects(), []string{strategy})
	if err != nil {
		return show.Told{}, fmt.Errorf("%w: %w", errElsewhere, err)
	}
	scenarios, err := lab.FindScenarios(anomalies.All(), []string{anomaly})
	if err != nil {
		return show.Told{}, fmt.Errorf("%w: %w", errElsewhere, err)
	}
	cfg := lab.Config{Subjects: subjects, Scenarios: scenarios, Redis: lab.Embedded}
	report, err := lab.Run(context.Background(), cfg, nil)
	if err != nil {
		return show.Told{}, err
	}
	return show.Tell(report.Manifest, report.Cells[0]), nil
}
