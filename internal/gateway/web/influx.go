package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// precision is the parameter of InfluxDB that specifies the unit of times.
const precision = "precision"

// units are the values of precision: those of both versions of InfluxDB, but minutes and
// hours, which are of the first.
var units = map[string]time.Duration{
	"n": time.Nanosecond, "ns": time.Nanosecond, "u": time.Microsecond, "us": time.Microsecond, "\u00b5": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
}

// precisionOf is the unit of the times at the ends of lines; 0: the configured one.
func precisionOf(u *url.URL) (time.Duration, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return 0, fmt.Errorf("the query cannot be read: %s", names.Cut(err.Error(), 80))
	}
	all := query[precision]
	if len(all) == 0 || len(all) == 1 && all[0] == "" {
		return 0, nil
	}
	unit := units[all[0]]
	if len(all) > 1 || unit == 0 || unit > time.Second && u.Path != "/write" {
		return 0, fmt.Errorf("precision is %q: want one of ns, us, ms and s, or n, u, m and h for /write", names.Cut(strings.Join(all, ","), 40))
	}
	return unit, nil
}

// influxAnswer writes errors as InfluxDB does, whose clients log them: as JSON, in fields
// of both versions.
type influxAnswer struct{ http.ResponseWriter }

// Unwrap lets a response controller set the deadlines of the connection.
func (w influxAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answer says what is wrong with a request.
func answer(w http.ResponseWriter, code int, text string) {
	influx, ok := w.(influxAnswer)
	if !ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		io.WriteString(w, text+"\n")
		return
	}
	kind := "invalid"
	if code >= http.StatusInternalServerError {
		kind = "unavailable"
	}
	influx.Header().Set("Content-Type", "application/json; charset=utf-8")
	influx.WriteHeader(code)
	json.NewEncoder(influx).Encode(map[string]string{"code": kind, "message": text, "error": text})
}
