package live_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// squeezed is a text as gzip.
func squeezed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Requests of InfluxDB clients: times of any precision, bodies as gzip, and batches
// with lines for other jobs. Nothing is misread, and an answer names the refused lines.
func TestGatewayTakesInfluxRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "4")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", in("model"), "--dir", in("data"), "--port", "-1", "--partitions", "2")
	defer stage.Stop(t)
	url := clitest.ServerURL.FindString(stage.Messages())
	g := clitest.Start(t, "publishing to", "gateway", "--model", in("model"), "--nats-url", url, "--http-listen", "127.0.0.1:0", "--outbox", in("outbox"))
	defer g.Stop(t)
	addr := regexp.MustCompile(`HTTP at (\S+)`).FindStringSubmatch(g.Messages())[1]
	const ns = int64(1767225600123456789)
	line := func(key string, at int64) string { return fmt.Sprintf("m,stream_id=%s c0=1,c1=2 %d\n", key, at) }
	large := strings.Repeat(line("large", ns), 10_000)
	want := map[string][]string{}
	for i, c := range []struct {
		path, encoding, body string
		code                 int
		says                 string
		stored               []string // key, c0 and time of each row
	}{
		{"/write", "", line("ns", ns), 204, "", []string{"ns 1 1767225600123456789"}},
		{"/write?precision=n", "", line("n", ns), 204, "", []string{"n 1 1767225600123456789"}},
		{"/write?db=x&precision=u", "", line("u", ns/1e3), 204, "", []string{"u 1 1767225600123456000"}},
		{"/write?precision=ms", "", line("ms1", ns/1e6), 204, "", []string{"ms1 1 1767225600123000000"}},
		{"/write?precision=s", "", line("s1", ns/1e9), 204, "", []string{"s1 1 1767225600000000000"}},
		{"/write?precision=m", "", line("m", ns/60e9), 204, "", []string{"m 1 1767225600000000000"}},
		{"/write?precision=h", "", line("h", ns/3600e9), 204, "", []string{"h 1 1767225600000000000"}},
		{"/api/v2/write?org=o&bucket=b&precision=us", "", line("us", ns/1e3), 204, "", []string{"us 1 1767225600123456000"}},
		{"/api/v2/write?precision=ms", "", line("ms2", ns/1e6), 204, "", []string{"ms2 1 1767225600123000000"}},
		{"/api/v2/write?precision=h", "", line("no", ns/3600e9), 400, `precision is \"h\"`, nil},
		{"/write?precision=d", "", line("no", 5), 400, `precision is \"d\"`, nil},
		{"/write?precision=ms&precision=s", "", line("no", 5), 400, "precision is", nil},
		{"/write?db=x;precision=ms", "", line("no", 5), 400, "the query cannot be read", nil},
		{"/write?precision=ms", "", line("no", ns), 400, "check precision", nil},
		{"/v1/sensors/no?precision=ms", "", `{"c0": 1, "c1": 2}`, 400, "input.time_unit", nil},
		{"/write?precision=s", "gzip", squeezed(t, line("z", ns/1e9)), 204, "", []string{"z 1 1767225600000000000"}},
		{"/v1/sensors/json", "gzip", squeezed(t, `{"c0": 5, "c1": 2, "ts": 7}`), 204, "", []string{"json 5 7"}},
		{"/api/v2/write", "gzip", line("no", ns), 400, "not gzip", nil},
		{"/api/v2/write", "gzip", squeezed(t, line("no", ns))[:40], 400, "its end is missing", nil},
		{"/api/v2/write", "gzip", squeezed(t, large), 413, "too large", nil},
		{"/api/v2/write", "", large, 413, "too large", nil},
		{"/api/v2/write", "deflate", line("no", ns), 415, "want gzip or none", nil},
		{"/api/v2/write", "", line("mix", 1) + "cpu,host=a usage_idle=99 2\n" + line("mix", 3) + "nonsense\n", 400, `line 2: influx: row 0 has no channel \"c0\"`, []string{"mix 1 1", "mix 1 3"}},
		{"/write", "", "nonsense\nm,stream_id=text c0=3,c1=2,s=\"\nm,stream_id=no c0=1,c1=2\n\" 4\nm,stream_id=bad.key c0=1,c1=2", 400, "line 5: gateway: the key", []string{"text 3 4"}},
		{"/write", "", "cpu,host=a usage_idle=99 2\n", 400, "no line is stored", nil},
		{"/write", "", line("some", 5) + "m,stream_id=some c0=4,c1=2\nm c0=1,c1=2\n", 400, "line 3", []string{"some 1 5", fmt.Sprint("some 4 ", int64(codec.NoTime))}},
	} {
		for range 2 { // the second is a repeat
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			r.Header.Set("Idempotency-Key", fmt.Sprint(i))
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			says, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != c.code || !strings.Contains(string(says), c.says) {
				t.Errorf("POST %s %.60q: %d, %q, %v; want %d, %q", c.path, c.body, resp.StatusCode, says, err, c.code, c.says)
			}
		}
		for _, row := range c.stored {
			key, _, _ := strings.Cut(row, " ")
			want[key] = append(want[key], row)
		}
	}
	got := map[string][]string{}
	readInput(t, url, func(key string, b *codec.Batch) {
		for i := range b.Rows {
			at := int64(codec.NoTime)
			if len(b.Times) > 0 {
				at = b.Times[i]
			}
			got[key] = append(got[key], fmt.Sprint(key, " ", b.X[2*i], " ", at))
		}
	})
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("%s: %q is stored, want %q", key, got[key], want[key])
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("also stored: %q", got)
	}
}
