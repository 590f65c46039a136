package problem

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// CodeInvalid is the code of a request that is wrong in itself.
const CodeInvalid = "invalid"

var errTrailing = errors.New("there is more after the JSON object")

// ReadBody reads the one JSON object that a body has into v, which must have all of
// its fields. Of a body that is anything else, or longer than an
// http.MaxBytesReader lets through, it replies what is wrong, and returns false.
func ReadBody(w http.ResponseWriter, body io.Reader, v any) bool {
	err := decode(body, v)
	if err == nil {
		return true
	}
	var tooLarge *http.MaxBytesError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &tooLarge):
		Reply(w, http.StatusRequestEntityTooLarge, "too_large", "the body may have at most "+strconv.FormatInt(tooLarge.Limit, 10)+" bytes")
	case errors.Is(err, io.EOF):
		Reply(w, http.StatusBadRequest, CodeInvalid, "the body is missing, and must be a JSON object")
	case errors.As(err, &wrongType) && wrongType.Field == "":
		Reply(w, http.StatusBadRequest, CodeInvalid, "the body must be a JSON object")
	case errors.As(err, &wrongType):
		Reply(w, http.StatusBadRequest, CodeInvalid, "the body does not fit: "+wrongType.Field+" cannot be a "+wrongType.Value)
	default:
		Reply(w, http.StatusBadRequest, CodeInvalid, "the body is not the JSON that is wanted: "+strings.TrimPrefix(err.Error(), "json: "))
	}
	return false
}

// decode reads one JSON value and sees that nothing follows.
func decode(body io.Reader, v any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	switch _, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errTrailing
}
