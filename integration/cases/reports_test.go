package cases

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

func (r *rig) serverURL() string { return "nats://" + addressOf(22100) }

// startTwo trains the model of two channels, and starts a stage and a gateway.
func (r *rig) startTwo(t *testing.T) (gateway *process) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	csv := "stream,time,c0,c1,label\n"
	for i := range 640 {
		label, mean := "lo", -1.0
		if i/4%2 == 1 {
			label, mean = "hi", 1
		}
		at := time.Date(2026, 1, 1, 0, 0, i%80, 0, time.UTC)
		csv += fmt.Sprintf("s%d,%s,%.3f,%.3f,%s\n", i/80, at.Format(time.RFC3339), mean+.2*rng.NormFloat64(), -mean+.2*rng.NormFloat64(), label)
	}
	r.writeFile(t, "two.csv", csv)
	r.mustRun(t, "import", "two.csv", "--output", "two.parquet")
	r.mustRun(t, "train", "two.parquet", "--bank", "tiny", "--policy", "count", "--length", "4", "--output", "two.safetensors")
	r.startUntil(t, "stage is reading", "run", "--model", "two.safetensors", "--port", fmt.Sprint(portOf(22100)), "--dir", "data1")
	gateway = r.startUntil(t, "Ctrl-C stops", "gateway", "--model", "two.safetensors", "--nats-url", r.serverURL(), "--mqtt-listen", addressOf(22110),
		"--http-listen", addressOf(22111), "--tcp-listen", addressOf(22112), "--metrics-listen", addressOf(22115), "--outbox", "outbox1")
	return gateway
}

func TestReportCases(t *testing.T) {
	r := newRig(t, "reports-3")
	gateway := r.startTwo(t)
	for _, c := range slices.Concat(r.messageReports(gateway), r.deviceReports(), r.archiveReports()) {
		recordCase(t, c.name, c.must, c.run)
	}
}

// report is one input: its name, the required result, and the function that runs the
// input.
type report struct {
	name, must string
	run        func(t *testing.T) outcome
}

// messageReports are messages to the gateway or to the stage.
func (r *rig) messageReports(gateway *process) []report {
	script := func(t *testing.T, name string) { r.runPython(t, r.copyInput(t, name)) }
	publish := func(t *testing.T, subject, name string) {
		t.Helper()
		nc, err := nats.Connect(r.serverURL())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		data, err := os.ReadFile(r.copyInput(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Request(subject, data, patience); err != nil {
			t.Fatal(err)
		}
	}
	return []report{
		{"A01", "2026-01-01T00:00:00.123Z, or 400", func(t *testing.T) outcome {
			code, output := r.postFile(t, 22111, "/api/v2/write?precision=ms", "A01-precision-ms.lp")
			if code == 400 {
				return newOutcome(true, "400 %s", output)
			}
			all := r.awaitSamples(t, "prec-ms", 1)
			return newOutcome(code == 204 && len(all) == 1 && strings.HasPrefix(all[0].time, "2026-01-01 00:00:00.123"), "%d, %v", code, all)
		}},
		{"A02", "the unfinished line is no row: only 0.5,12.75", func(t *testing.T) outcome {
			script(t, "A02-tcp-cut.py")
			r.awaitSamples(t, "cut1", 1)
			time.Sleep(time.Second)
			got := formatSamples(r.recordedSamples(t, "cut1", "c0", "c1"))
			return newOutcome(slices.Equal(got, []string{"0.5,12.75"}), "%v", got)
		}},
		{"A03", "one row of ml2 (0.5, 1) and one (1, 1); no stream forged", func(t *testing.T) outcome {
			script(t, "A03-tcp-newline-in-text.py")
			got, forged := formatSamples(r.awaitSamples(t, "ml2", 2)), formatSamples(r.recordedSamples(t, "forged", "c0", "c1"))
			return newOutcome(slices.Equal(got, []string{"0.5,1", "1,1"}) && len(forged) == 0, "ml2 %v, forged %v", got, forged)
		}},
		{"A04", "unchanged half-precision numbers, including subnormal numbers", func(t *testing.T) outcome {
			publish(t, "sensors.half", "A04-half.arrow")
			var got, want []float32
			for _, s := range r.awaitSamples(t, "half", 6) {
				got = append(got, float32(s.values[0]))
			}
			want = []float32{0x1p-24, 1023 * 0x1p-24, 0x1p-14, 1, -1023 * 0x1p-24, 65504}
			return newOutcome(slices.Equal(got, want), "%v, want %v", got, want)
		}},
		{"A15", "204 for a body with Content-Encoding: gzip", func(t *testing.T) outcome {
			code, output := r.postFile(t, 22111, "/api/v2/write", "A15-lines.lp.gz", "Content-Encoding", "gzip")
			if code != 204 {
				return newOutcome(false, "%d %s", code, output)
			}
			got := formatSamples(r.awaitSamples(t, "gz", 1))
			return newOutcome(slices.Equal(got, []string{"0.5,1"}), "%d, %v", code, got)
		}},
		{"A16", "the two good lines are stored, and the answer names the third", func(t *testing.T) outcome {
			code, output := r.postFile(t, 22111, "/api/v2/write", "A16-mixed-batch.lp")
			got := formatSamples(r.awaitSamples(t, "mix1", 2))
			named := strings.Contains(output, "cpu") || strings.Contains(output, "line 2")
			return newOutcome(slices.Equal(got, []string{"0.5,1", "0.6,1"}) && named, "%d %s, %v", code, output, got)
		}},
		{"A17", "taken, as 23:59:59.999999999 or 00:00:00", func(t *testing.T) outcome {
			code, output := r.postFile(t, 22111, "/v1/sensors/leap", "A17-leap-second.json")
			if code/100 != 2 {
				return newOutcome(false, "%d %s", code, output)
			}
			all := r.awaitSamples(t, "leap", 1)
			return newOutcome(len(all) == 1 && regexp.MustCompile(`^(2016-12-31 23:59:59.999999999|2017-01-01 00:00:00)`).MatchString(all[0].time), "%d, %v", code, all)
		}},
		{"A18", "SenML: c0 = 20, only from bv", func(t *testing.T) outcome {
			r.startFormat(t, "senml", 22120)
			code, output := r.postFile(t, 22120, "/v1/sensors/senml", "A18-senml-bv.json")
			var got []string
			if code/100 == 2 {
				got = formatSamples(append(r.awaitSamples(t, "p", 1), r.recordedSamples(t, "senml", "c0", "c1")...))
			}
			return newOutcome(len(got) > 0 && strings.HasPrefix(got[0], "20,"), "%d %s, %v", code, output, got)
		}},
		{"A22", "booleans are 1 and 0", func(t *testing.T) outcome {
			publish(t, "sensors.bools", "A22-bool.arrow")
			var got []string
			for _, s := range r.awaitSamples(t, "bools", 2) {
				got = append(got, fmt.Sprint(s.values[0]))
			}
			return newOutcome(slices.Equal(got, []string{"1", "0"}), "%v", got)
		}},
		{"A26", "none of its messages looks like Influx", func(t *testing.T) outcome {
			output := ""
			for i, format := range []string{"csv", "influx"} {
				r.startFormat(t, format, 22121+i)
				code, text := r.postFile(t, 22121+i, "/v1/sensors/comment", "A26-comment.csv")
				output += fmt.Sprintf("%s: %d %s; ", format, code, text)
			}
			return newOutcome(!strings.Contains(output, "looks like Influx"), "%s", output)
		}},
		{"A27", "the hint to send null, as for NaN", func(t *testing.T) outcome {
			code, output := r.postFile(t, 22111, "/v1/sensors/nan", "A27-nan.json")
			return newOutcome(code/100 != 2 && strings.Contains(output, "send null"), "%d %s", code, output)
		}},
		{"A13", "a will with the retain flag: connected, or a line in the gateway's log; for 3.1.1 a return code of 3.1.1", func(t *testing.T) outcome {
			before := len(gateway.output())
			got := connectMQTT(t, addressOf(22110), mqttConnect{id: "will", level: 4, will: "sensors/w/LWT", retain: true})
			time.Sleep(300 * time.Millisecond)
			logged := gateway.output()[before:]
			allowed := got.closed || got.code <= 5 // 3.1.1 has no other codes
			return newOutcome(got.code == 0 && !got.closed || logged != "" && allowed, "return code %#x, closed %v, log %q", got.code, got.closed, logged)
		}},
		{"A14", "too large a message: log, counter, DISCONNECT with a reason; CONNACK with 0x25 and 0x27", func(t *testing.T) outcome {
			before := len(gateway.output())
			told := r.sendLarge(t, 5)
			r.sendLarge(t, 4)
			time.Sleep(300 * time.Millisecond)
			logged := gateway.output()[before:]
			return newOutcome(told.size && told.retain && told.reason != 0 && strings.Contains(strings.ToLower(logged), "large"), "%+v, log %q", told, logged)
		}},
	}
}

// startFormat starts a gateway for a single format.
func (r *rig) startFormat(t *testing.T, format string, at int) {
	t.Helper()
	name := r.writeFile(t, format+".yaml", fmt.Sprintf("nats: {url: %q}\nmodel: two.safetensors\ngateway: {format: %s, outbox: outbox-%s}\n", r.serverURL(), format, format))
	r.startUntil(t, "Ctrl-C stops", "gateway", "-c", name, "--http-listen", addressOf(at))
}

// runPython runs a script.
func (r *rig) runPython(t *testing.T, args ...string) string {
	t.Helper()
	out, code := r.execute(patience, "python3", args...)
	if code < 0 {
		parts.Absent(t, "python", "no python3: %s", out)
	}
	if code != 0 {
		t.Fatalf("python3 %v: code %d\n%s", args, code, out)
	}
	return out
}

// copyFolder copies a folder of inputs to the rig.
func (r *rig) copyFolder(t *testing.T, name string) {
	t.Helper()
	if err := os.CopyFS(r.pathOf(name), os.DirFS(filepath.Join(r.cases, name))); err != nil {
		t.Fatal(err)
	}
}
