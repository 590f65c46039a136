package problem

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"oversell/internal/message"
)

// CodeInvalid is the code for an invalid request.
const CodeInvalid = "invalid"

// maxQuoted is the maximum length of a client's text that a reply repeats, in bytes.
const maxQuoted = 64

var (
	errTrailing = errors.New("there is more data after the JSON object")
	errNoObject = errors.New("the body must be a JSON object")
	errEncoding = errors.New("it is not UTF-8")
	errCutOff   = errors.New("the body ended before it was complete")
)

// ReadBody reads a body that is one JSON object into v, a pointer to a struct without nested
// objects. The object may have only fields of the struct, by their exact names, and each at most
// once. For any other body, or if an http.MaxBytesReader refuses its length, ReadBody replies with
// what is wrong and returns false.
func ReadBody(w http.ResponseWriter, body io.Reader, v any) bool {
	err := decode(body, v)
	if err == nil {
		return true
	}
	var tooLarge *http.MaxBytesError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &tooLarge):
		Reply(w, http.StatusRequestEntityTooLarge, "too_large",
			message.Newf("the body may have at most %d bytes", tooLarge.Limit))
	case errors.Is(err, errCutOff):
		Reply(w, http.StatusBadRequest, CodeInvalid, message.Of(errCutOff)) // the cause names addresses
	case errors.Is(err, io.EOF):
		Reply(w, http.StatusBadRequest, CodeInvalid, message.Text("the body is missing; it must be a JSON object"))
	case errors.Is(err, errNoObject), errors.As(err, &wrongType) && wrongType.Field == "":
		Reply(w, http.StatusBadRequest, CodeInvalid, message.Of(errNoObject))
	case errors.As(err, &wrongType):
		Reply(w, http.StatusBadRequest, CodeInvalid, message.Newf("the body is not valid: %s must be "+
			kind(wrongType.Type)+", but is a %s", wrongType.Field, cut(wrongType.Value)))
	default:
		said := message.Of(err)
		if text, ok := strings.CutPrefix(err.Error(), "json: "); ok {
			said = message.Text(text)
		}
		Reply(w, http.StatusBadRequest, CodeInvalid, message.Newf("the body is not valid for this request: %s", said))
	}
	return false
}

// kind describes the JSON value that a field of type t takes.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "of another type"
}

// decode reads one JSON object, and checks that nothing follows it.
func decode(body io.Reader, v any) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return err
	}
	switch _, err := d.Token(); {
	case err == nil:
		return errTrailing
	case !errors.Is(err, io.EOF):
		return err
	}
	if !utf8.Valid(text) {
		return errEncoding
	}
	return eachFieldOnce(text, fieldNames(v))
}

// eachFieldOnce refuses what encoding/json accepts: a field that is given twice, an unknown field,
// and a name in a different case, such as Quantity instead of quantity. The text must be a JSON
// value.
func eachFieldOnce(text []byte, allowed []string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return errNoObject // the text is null
	}
	var seen []string
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if !slices.Contains(allowed, name) {
			return message.Errorf("unknown field %s (allowed: %s)", Quoted(name), strings.Join(allowed, ", "))
		}
		if slices.Contains(seen, name) {
			return message.Errorf("the field %q is given twice", name)
		}
		seen = append(seen, name)
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return err
		}
	}
	return nil
}

// fieldNames returns the JSON names of the fields of the struct that v points to.
func fieldNames(v any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
	}
	return names
}

// Quoted returns a client's text quoted, so that it is safe to send back, and cut to a
// readable length.
func Quoted(text string) string { return strconv.QuoteToASCII(cut(text)) }

func cut(text string) string {
	if len(text) > maxQuoted {
		return text[:maxQuoted] + "..."
	}
	return text
}
