package plants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.yaml.in/yaml/v3"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// form is how a plant sends its samples to the gateway.
type form string

const (
	lineProtocol form = "line protocol over HTTP"
	jsonHTTP     form = "JSON over HTTP"
	csvHTTP      form = "CSV over HTTP"
	jsonMQTT     form = "JSON over MQTT"
)

// samplesPerRequest bounds the requests to the gateway.
const samplesPerRequest = 500

// runLive sends the recording of an evaluation through gateway, stage and alarms, and checks that all predictions and
// alarms equal the evaluation. It returns the evaluation with all predictions.
func (r *rig) runLive(ev evaluated, how form) *offline.Evaluation {
	t := r.t
	t.Helper()
	file := clitest.Write(t, "live.yaml", liveConfig(ev, how))
	stage := clitest.Start(t, "keeping the alarms", "run", "-c", file)
	defer stage.Stop(t)
	url := clitest.ServerURL.FindString(stage.Messages())
	address := regexp.MustCompile(`(?:HTTP|MQTT[a-z ]*) at (\S+)`).FindStringSubmatch(stage.Messages())[1]
	want := evaluateAll(r, ev)
	r.send(ev.args[1], how, address)
	clitest.Await(t, url, len(want.Predictions), 0)
	var last uint64
	clitest.OnServer(t, url, func(js jetstream.JetStream) (err error) {
		last, err = r.comparePredictions(js, want)
		return err
	})
	clitest.OnServer(t, url, func(js jetstream.JetStream) error { return r.compareAlarms(js, last, ev.Alarms.Events) })
	return want
}

// liveConfig returns a configuration with the model and the rules of an evaluation, and free ports.
func liveConfig(ev evaluated, how form) string {
	listen := "http"
	if how == jsonMQTT {
		listen = "mqtt"
	}
	rules := map[string]string{}
	_ = yaml.Unmarshal([]byte(option(ev.args, rulesFlag)), &rules)
	dir, _ := os.MkdirTemp(".", "live")
	out, _ := yaml.Marshal(map[string]any{
		"model":   option(ev.args, "--model"),
		"server":  map[string]any{"dir": dir, "port": -1},
		"gateway": map[string]any{listen: "127.0.0.1:0", "outbox": dir + "-outbox", "new_streams": 3000},
		"alarms":  map[string]any{"rules": rules},
		"metrics": map[string]any{"listen": ""},
	})
	return string(out)
}

// evaluateAll repeats an evaluation and returns its predictions, too.
func evaluateAll(r *rig, ev evaluated) *offline.Evaluation {
	m, err := reservoir.Load(option(ev.args, "--model"))
	var opt offline.EvaluateOptions
	if parts := option(ev.args, "--parts"); parts != "" && err == nil {
		opt.Parts, err = os.ReadFile(parts)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := offline.Evaluate(r.t.Context(), m, archive.RecordingFiles{Paths: []string{ev.args[1]}}, opt, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// eachStretch calls do with stretches of samples of one stream.
func (r *rig) eachStretch(path string, do func(channels []string, c archive.RecordingChunk)) {
	rec, err := archive.RecordingFiles{Paths: []string{path}}.Open("", "")
	if err != nil {
		r.t.Fatal(err)
	}
	width := len(rec.RecordingInfo.Channels)
	if err := rec.Each(r.t.Context(), func(c *archive.RecordingChunk) error {
		for from := 0; from < c.Rows(); {
			to := from + 1
			for to < c.Rows() && to-from < samplesPerRequest && c.Stream[to] == c.Stream[from] {
				to++
			}
			do(rec.RecordingInfo.Channels, archive.RecordingChunk{Stream: c.Stream[from:to], Time: c.Time[from:to], Label: c.Label[from:to], Values: c.Values[from*width : to*width]})
			from = to
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
}

// send sends a recording to the gateway.
func (r *rig) send(path string, how form, address string) {
	var lines bytes.Buffer // of one topic, for MQTT
	topic := ""
	r.eachStretch(path, func(channels []string, c archive.RecordingChunk) {
		switch how {
		case lineProtocol:
			r.post("http://"+address+"/write", asLines(channels, &c))
		case jsonHTTP:
			r.post("http://"+address+"/v1/sensors/"+c.Stream[0], asJSON(channels, &c))
		case csvHTTP:
			r.post("http://"+address+"/v1/sensors/"+c.Stream[0], asCSV(channels, &c))
		case jsonMQTT:
			if next := "sensors/" + c.Stream[0]; next != topic {
				r.publish(address, topic, &lines)
				topic = next
			}
			lines.WriteString(asJSON(channels, &c) + "\n")
		}
	})
	r.publish(address, topic, &lines)
}

// post sends a body to the gateway. The key lets the client retry the request, as a device does.
func (r *rig) post(url, body string) {
	r.posts++
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", fmt.Sprint(r.posts))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	says, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		r.t.Fatalf("POST %s: %d %s", url, resp.StatusCode, says)
	}
}

// publish sends the lines of a topic as messages to the gateway's broker.
func (r *rig) publish(address, topic string, lines *bytes.Buffer) {
	if lines.Len() == 0 {
		return
	}
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(r.t.Context(), "mosquitto_pub", "-h", host, "-p", port, "-q", "1", "-t", topic, "-l")
	cmd.Stdin = lines
	if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		parts.Absent(r.t, "mosquitto", "no mosquitto_pub: install mosquitto-clients")
	} else if err != nil {
		r.t.Fatalf("mosquitto_pub: %v: %s", err, out)
	}
	lines.Reset()
}

func number(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

// asLines writes samples in line protocol.
func asLines(channels []string, c *archive.RecordingChunk) string {
	var b strings.Builder
	for i := range c.Stream {
		fmt.Fprintf(&b, "plant,stream_id=%s ", c.Stream[i])
		for k, name := range channels {
			fmt.Fprintf(&b, "%s=%s,", strings.ReplaceAll(name, " ", `\ `), number(c.Values[i*len(channels)+k]))
		}
		text := strings.TrimSuffix(b.String(), ",")
		b.Reset()
		b.WriteString(text)
		if c.Time[i] != archive.NoTime {
			fmt.Fprintf(&b, " %d", c.Time[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// asJSON writes samples as an object with an array for each channel.
func asJSON(channels []string, c *archive.RecordingChunk) string {
	var fields []string
	for k, name := range channels {
		var values []string
		for i := range c.Stream {
			values = append(values, number(c.Values[i*len(channels)+k]))
		}
		fields = append(fields, fmt.Sprintf("%q: [%s]", name, strings.Join(values, ",")))
	}
	if c.Time[0] != archive.NoTime {
		fields = append(fields, `"ts": [`+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.Time)), ","), "[]")+"]")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// asCSV writes samples as CSV with a header.
func asCSV(channels []string, c *archive.RecordingChunk) string {
	b := strings.Builder{}
	b.WriteString(strings.Join(channels, ",") + "\n")
	for i := range c.Stream {
		var values []string
		for k := range channels {
			values = append(values, number(c.Values[i*len(channels)+k]))
		}
		b.WriteString(strings.Join(values, ",") + "\n")
	}
	return b.String()
}

// comparePredictions checks that the job's predictions of each stream equal the evaluation, and returns the position of
// the last one.
func (r *rig) comparePredictions(js jetstream.JetStream, want *offline.Evaluation) (last uint64, err error) {
	of := map[string][]*offline.Prediction{}
	for i := range want.Predictions {
		p := &want.Predictions[i]
		of[p.ID] = append(of[p.ID], p)
	}
	left, wrong := len(want.Predictions), 0
	enough := errors.New("enough")
	err = consumer.Predictions(r.t.Context(), js, "eusn", 1, func(o consumer.Output) error {
		last = o.Seq
		for i := range o.Predictions {
			live := &o.Predictions[i]
			if len(of[live.Stream]) == 0 {
				return fmt.Errorf("stream %q has more predictions than in the evaluation", live.Stream)
			}
			p := of[live.Stream][0]
			of[live.Stream] = of[live.Stream][1:]
			if !live.Answer.Equal(&p.Answer) {
				if wrong++; wrong < 5 {
					r.t.Errorf("stream %q, sample %d: live %+v, evaluated %+v", live.Stream, p.Position, live.Answer, p.Answer)
				}
			}
			left--
		}
		if left <= 0 {
			return enough
		}
		return nil
	})
	if wrong > 0 {
		r.t.Errorf("%d of %d predictions differ", wrong, len(want.Predictions))
	}
	if errors.Is(err, enough) {
		err = nil
	}
	return last, err
}

// compareAlarms waits until all predictions are judged, and checks that the events of each rule and stream equal the
// evaluation.
func (r *rig) compareAlarms(js jetstream.JetStream, last uint64, want []alarm.Event) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), pipelinetest.Patience)
	defer cancel()
	if err := awaitJudged(ctx, js, last); err != nil {
		return err
	}
	var got []alarm.Event
	if err := watch.ReadEvents(ctx, js, "eusn", time.Unix(1, 0), false, func(e alarm.Event) error {
		got = append(got, e)
		return nil
	}); err != nil {
		return err
	}
	live, offline := eventTexts(got), eventTexts(want)
	if !slices.Equal(live, offline) {
		r.t.Errorf("live alarms (%d) differ from evaluate --alarms (%d):\n%q\n%q", len(live), len(offline), head(live), head(offline))
	}
	return nil
}

// awaitJudged waits until the prediction at a position is judged.
func awaitJudged(ctx context.Context, js jetstream.JetStream, position uint64) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		kv, err := js.KeyValue(ctx, "EUSN-LATEST")
		if err != nil {
			return err
		}
		keys, err := kv.Keys(ctx)
		if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
			return err
		}
		for _, key := range keys {
			entry, err := kv.Get(ctx, key)
			var latest struct{ Position uint64 }
			if err == nil {
				err = json.Unmarshal(entry.Value(), &latest)
			}
			if err != nil || latest.Position == position {
				return err
			}
		}
	}
}

// eventTexts lists the events of alarms by rule and stream, in the order of each.
func eventTexts(events []alarm.Event) (all []string) {
	count := map[string]int{}
	for _, e := range events {
		if e.Kind != alarm.Raised && e.Kind != alarm.Cleared {
			continue
		}
		key := e.Rule + " " + e.Key
		number := ""
		if e.Estimate != nil {
			number = fmt.Sprint(*e.Estimate)
		}
		all = append(all, fmt.Sprintf("%s %04d %s %s %v %v %v %s", key, count[key], e.Kind, e.Class, e.Probability, e.Novelty, e.NoveltyP, number))
		count[key]++
	}
	slices.Sort(all)
	return all
}

func head(all []string) []string { return all[:min(len(all), 6)] }
