package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// python runs a script of clients/python with the system's interpreter.
func python(t *testing.T, input any, args ...string) string {
	t.Helper()
	const interpreter = "/usr/bin/python3"
	if _, err := os.Stat(interpreter); err != nil {
		parts.Absent(t, "python", "no %s: the Python module is not run", interpreter)
	}
	dir, err := filepath.Abs("../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), interpreter, args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, bytes.NewReader(text), append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// The Python module makes the same messages as the program: labels, headers, checksums;
// and publishes each sample once and in order to a real server, with lost
// acknowledgements and a full buffer. If pyarrow is installed, its Arrow data is compared
// as well.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	server := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	t.Run("messages", func(t *testing.T) {
		js := pipelinetest.JetStreamAt(t, server.URL())
		if out := python(t, pythonGolden(t, js, server.URL()), "tests/check.py"); out != "ok\n" {
			t.Errorf("it says %s", out)
		}
	})
	t.Run("pyarrow", func(t *testing.T) {
		if exec.Command("/usr/bin/python3", "-c", "import pyarrow, nats").Run() != nil {
			parts.Absent(t, "pyarrow", "no pyarrow and nats-py: the Python module's Arrow and its connection are not run: pip install -r clients/python/requirements.txt")
		}
		js := pipelinetest.JetStreamAt(t, server.URL())
		if out := python(t, pythonGolden(t, js, server.URL()), "tests/check.py", "--arrow"); out != "ok\n" {
			t.Errorf("it says %s", out)
		}
	})
	t.Run("live", func(t *testing.T) { pythonLive(t) })
}

// pythonGolden returns the program's results, as clients/python/tests/check.py reads
// them.
func pythonGolden(t *testing.T, js jetstream.JetStream, at string) map[string]any {
	t.Helper()
	type message struct {
		Label   map[string]any    `json:"label,omitempty"`
		Subject string            `json:"subject,omitempty"`
		Body    string            `json:"body,omitempty"`
		Payload string            `json:"payload,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Rows    [][]any           `json:"rows,omitempty"`
	}
	var words []string
	for flags := range 4097 {
		words = append(words, outcome.Flag(flags).Integrity())
	}
	last := func(stream, subject string) message {
		s, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for name := range m.Header {
			headers[name] = m.Header.Get(name)
		}
		return message{Subject: m.Subject, Body: string(m.Data), Payload: base64.StdEncoding.EncodeToString(m.Data), Headers: headers}
	}
	if err := labels.Ensure(t.Context(), js, "eusn", 1); err != nil {
		t.Fatal(err)
	}
	var said []message
	for _, l := range []labels.Label{
		{Stream: "pump 7.a*>", From: -1, To: 1<<60 + 10, Class: `ü "<x>"`, Who: "anna", When: time.Unix(1, 500).UTC()},
		{Stream: "p", Seq: 1<<53 + 1, Row: 1<<32 - 1, Who: "bert", When: time.Unix(0, 0).UTC()},
	} {
		if _, err := labels.Add(t.Context(), js, "eusn", l); err != nil {
			t.Fatal(err)
		}
		m := last("EUSN-LABELS", "eusn.labels.*")
		m.Payload = ""
		m.Label = map[string]any{"stream": l.Stream, "who": l.Who, "label": l.Class, "when": l.When.UnixNano()}
		if l.Seq != 0 {
			m.Label["seq"], m.Label["row"], m.Label["label"] = l.Seq, l.Row, nil
		} else {
			m.Label["from_"], m.Label["to"] = l.From, l.To
		}
		said = append(said, m)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}}); err != nil {
		t.Fatal(err)
	}
	c, err := client.Connect(t.Context(), client.Options{URL: at, Channels: []string{"c0", "c1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err = c.Publish(t.Context(), client.Samples{Stream: "p", X: []float32{1, 2, .1, -4}, Times: []int64{5, client.NoTime}, End: true}); err == nil {
		err = c.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	sample := last("EUSN-IN", "sensors.p")
	sample.Body = ""
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := enc.Encode([]codec.Prediction{{Stream: "p", Seq: 3, Row: 4, Answer: outcome.Answer{Class: 1, Score: .5, Flags: 1}, Time: codec.NoTime}})
	if err != nil {
		t.Fatal(err)
	}
	promoted, readouts := promotedMessage(t)
	var rows [][]any
	for _, r := range readouts {
		rows = append(rows, []any{r})
	}
	later, laterRows := laterMessage(t)
	return map[string]any{"integrity": words, "labels": said, "sample": sample,
		"later":      message{Payload: base64.StdEncoding.EncodeToString(later), Rows: laterRows},
		"promoted":   message{Payload: base64.StdEncoding.EncodeToString(promoted), Rows: rows},
		"prediction": message{Payload: base64.StdEncoding.EncodeToString(text), Rows: [][]any{{"p", "b", outcome.Flag(1).Integrity(), 3, 4}}}}
}

// laterMessage returns a message with all optional columns, and for each prediction set,
// novelty, its p-value, change, value, low and high; nil for a missing value. The numbers
// are the same in float32 and in decimal digits.
func laterMessage(t *testing.T) (data []byte, rows [][]any) {
	t.Helper()
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b"}})
	if err == nil {
		data, err = enc.Encode([]codec.Prediction{
			{Stream: "p", Time: codec.NoTime},
			{Stream: "p", Time: codec.NoTime, Answer: outcome.Answer{Set: []int32{0, 1}, Novelty: 2.5, NoveltyP: .25}},
			{Stream: "p", Time: codec.NoTime, Answer: outcome.Answer{Set: []int32{}, Change: .125}},
			{Stream: "p", Time: codec.NoTime, Answer: outcome.Answer{Number: outcome.Number{Value: 1.5, Low: -2, High: 4.5, Known: true}, Inputs: []float32{.5, -1, 2}}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return data, [][]any{
		make([]any, 8),
		{[]string{"a", "b"}, 2.5, .25, nil, nil, nil, nil, nil},
		{[]string{}, nil, nil, .125, nil, nil, nil, nil},
		{nil, nil, nil, nil, 1.5, -2, 4.5, []float32{.5, -1, 2}},
	}
}

// promotedMessage returns a message of a job with a promoted readout, and the readout of
// each prediction.
func promotedMessage(t *testing.T) (data []byte, readouts []string) {
	t.Helper()
	first, second := strings.Repeat("0a", 16), strings.Repeat("1b", 16)
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b"}, Columns: 1, First: first})
	if err == nil {
		data, err = enc.Encode([]codec.Prediction{
			{Stream: "p", Seq: 1, Time: codec.NoTime, Answer: outcome.Answer{Scores: []float32{1}}}, {Stream: "q", Seq: 2, Time: codec.NoTime, Answer: outcome.Answer{Scores: []float32{2}}, Readout: second},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return data, []string{first, second}
}

// pythonLive publishes with the module to a server.
func pythonLive(t *testing.T) {
	server := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	js := pipelinetest.JetStreamAt(t, server.URL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}}); err != nil {
		t.Fatal(err)
	}
	series := map[string][][]float64{}
	for i := range 50 {
		for k, name := range []string{"a", "b", "c"} {
			series[name] = append(series[name], []float64{float64(i), float64(k)})
		}
	}
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if out := python(t, series, "tests/live.py", u.Port()); out != "ok\nrefused\n" {
		t.Errorf("it says %q", out)
	}
	in, err := js.OrderedConsumer(t.Context(), "EUSN-IN", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	next, numbers, ended := map[string]float64{}, map[string]int{}, 0
	for pending := uint64(1); pending > 0; {
		m, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		pending = meta.NumPending
		name := strings.TrimPrefix(m.Subject(), "sensors.")
		var got struct{ C0, C1 []float64 }
		if err := json.Unmarshal(m.Data(), &got); err != nil {
			t.Fatal(err)
		}
		numbers[name]++
		if n := m.Headers().Get("Eusn-Seq"); n != jsonNumber(numbers[name]) {
			t.Errorf("stream %s: message %d has the number %s", name, numbers[name], n)
		}
		if want := crcOf(m.Data()); m.Headers().Get("Eusn-Crc") != want {
			t.Errorf("checksum %s, want %s", m.Headers().Get("Eusn-Crc"), want)
		}
		if m.Headers().Get("Eusn-End") == "true" {
			ended++
		}
		for _, v := range got.C0 {
			if v != next[name] {
				t.Fatalf("stream %s: sample %v, want %v", name, v, next[name])
			}
			next[name]++
		}
	}
	for name := range series {
		if next[name] != 50 {
			t.Errorf("stream %s: %v samples are stored, want 50", name, next[name])
		}
	}
	if ended != 3 {
		t.Errorf("%d sequences ended, want 3", ended)
	}
}

func jsonNumber(n int) string { text, _ := json.Marshal(n); return string(text) }

func crcOf(data []byte) string {
	const hex = "0123456789abcdef"
	sum, text := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), make([]byte, 8)
	for i := range text {
		text[i] = hex[sum>>(28-4*i)&15]
	}
	return string(text)
}
