package disk

import (
	"bytes"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/config"
)

// The text for each kind of growth.
func TestDiskWords(t *testing.T) {
	grows := func(perDay float64, most ...float64) (g admin.Growth) {
		for i, name := range []string{"EUSN-IN", "EUSN-OUT", "EUSN-DLQ"} {
			s := admin.StreamGrowth{Stream: name, Bytes: 1e9, PerDay: perDay, Most: most[i]}
			if !math.IsInf(s.Most, 1) {
				s.Bounds = []string{"max_bytes 7"}
			}
			g.Streams = append(g.Streams, s)
		}
		return g
	}
	ever := math.Inf(1)
	for _, c := range []struct {
		g     admin.Growth
		free  float64
		level string
		says  []string
		not   string
	}{
		{grows(1e9, ever, ever, 2e9), 9e9, "WARN", []string{"full_in_days=4.0", "no limit on EUSN-IN", "gb_a_day=3 ", "free_gb=9"}, "less free space"},
		{grows(1e9, ever, 2e9, 2e9), 9e12, "INFO", []string{"full_in_days=8998.0", "limits: EUSN-OUT by max_bytes 7; EUSN-DLQ"}, "EUSN-OUT (output"},
		{grows(1e9, 2e9, 2e9, 2e9), 9e9, "INFO", []string{"limits: EUSN-IN"}, "full_in_days"},
		{grows(1e9, 9e9, 9e9, 9e9), 9e9, "WARN", []string{"the disk has less free space than these limits", "full_in_days=3.0"}, "nothing bounds"},
		{grows(0, ever, ever, ever), 9e9, "INFO", []string{"gb_a_day=0 "}, "full_in_days"},
		{grows(1e9, ever, ever, ever), math.NaN(), "INFO", []string{"free_of=\"the disk\""}, "free_gb"},
	} {
		var b bytes.Buffer
		logGrowth(slog.New(slog.NewTextHandler(&b, nil)), c.g, space{bytes: c.free, limitedBy: "the disk"})
		for _, want := range append(c.says, "level="+c.level) {
			if !strings.Contains(b.String(), want) {
				t.Errorf("lacks %q: %s", want, b.String())
			}
		}
		if strings.Contains(b.String(), c.not) {
			t.Errorf("says %q: %s", c.not, b.String())
		}
	}
	c, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Server.Dir = filepath.Join(t.TempDir(), "a", "b")
	if f := describePlan(c); f.status != "ok" && !strings.Contains(f.sentence, "of the disk are used") {
		t.Errorf("the defaults: %+v", f)
	}
	c.Input.MaxBytes, c.Output.Keep = 0, 0
	if f := describePlan(c); f.status != "note" || !strings.Contains(f.sentence, "the input (input.max_age or input.max_bytes), the predictions (output.keep)") || !strings.Contains(f.sentence, "GB are free") {
		t.Errorf("%+v", f)
	}
	c.Input.MaxAge, c.Output.Keep = time.Hour, 5
	if f := describePlan(c); f.status != "ok" && !strings.Contains(f.sentence, "of the disk are used") {
		t.Errorf("%+v", f)
	}
	if f := describeAverage(grows(1e9, 2e9, 2e9, 2e9), space{bytes: 9e9, limitedBy: "the disk"}); f.status != "ok" || !strings.HasSuffix(f.sentence, ".") {
		t.Errorf("%+v", f)
	}
}

// A full disk is a problem, and above 85 % used is a warning.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		free, of uint64
		status   string
	}{
		{0, 12 << 20, "problem"}, {8 << 20, 1 << 40, "problem"}, {10 << 30, 100 << 30, "note"}, {16 << 30, 100 << 30, ""}, {90 << 30, 100 << 30, ""},
	} {
		if status, text := fillText(c.free, c.of); status != c.status || (status == "") != (text == "") {
			t.Errorf("%d bytes free of %d: %q, %q, want %q", c.free, c.of, status, text, c.status)
		}
	}
}
