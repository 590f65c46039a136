package problem

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"oversell/internal/message"
)

// ReadQuery returns the parameters of a request's query. Each must be allowed, be given once and
// not be empty; otherwise ReadQuery replies with what is wrong and returns false. Unknown
// parameters are not ignored, because then the client would not get what it asked for.
func ReadQuery(w http.ResponseWriter, r *http.Request, allowed ...string) (parameters map[string]string, ok bool) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		Reply(w, http.StatusBadRequest, CodeInvalid, message.Newf("the query of the URL cannot be read: %s", err))
		return nil, false
	}
	parameters = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		given := values[name]
		switch {
		case !slices.Contains(allowed, name):
			Reply(w, http.StatusBadRequest, CodeInvalid, unknown(name, allowed))
			return nil, false
		case len(given) > 1:
			Reply(w, http.StatusBadRequest, CodeInvalid, message.Newf("the parameter %s is given more than once", name))
			return nil, false
		case given[0] == "":
			Reply(w, http.StatusBadRequest, CodeInvalid, message.Newf("the parameter %s is empty", name))
			return nil, false
		}
		parameters[name] = given[0]
	}
	return parameters, true
}

// unknown says that a parameter is not among those that are allowed.
func unknown(name string, allowed []string) message.Message {
	if len(allowed) == 0 {
		return message.Newf("unknown parameter %s; no parameter is allowed here", Quoted(name))
	}
	return message.Newf("unknown parameter %s; allowed here: %s", Quoted(name), strings.Join(allowed, ", "))
}
