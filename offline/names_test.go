package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A series or channel without any value is reported at import and at training.
func TestAbsent(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{
		"P_TRAIN.ts": "@problemName P\n@classLabel true a b\n@data\n1,2:?,?:a\n?,?:?,?:b\n3,5:?,?:b\n",
		"P_TEST.ts":  "@problemName P\n@classLabel true a b\n@data\n?,?:?,?:a\n",
	})
	d, err := imports.Import(context.Background(), imports.Options{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(d.Source.Warnings, "; ")
	for _, want := range []string{
		"1 series of the train part without a single value, the first train-1", "1 of 2 channels without a single value in the train part, the first c1",
		"1 series of the test part without a single value, the first test-0", "2 of 2 channels",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("warnings lack %q: %s", want, all)
		}
	}
	spec := reservoir.EulerBank(2)
	spec.Members, spec.Units = 1, 4
	m, report, err := Retrain(t.Context(), d, RetrainOptions{Spec: spec}, nil)
	if err != nil || report.Empty != 1 || len(report.Silent) != 1 || report.Silent[0] != "c1" {
		t.Fatalf("%+v, %v", report, err)
	}
	ev, err := Evaluate(t.Context(), m, d, EvaluateOptions{}, nil)
	if err != nil || ev.Empty != 1 {
		t.Errorf("%+v, %v", ev, err)
	}
}

// A value that no network accepts is reported with its place, before any computation.
func TestRetrainNamesTheValue(t *testing.T) {
	spec := reservoir.EulerBank(2)
	spec.Members, spec.Units = 1, 4
	for _, v := range []float32{1e30, -1.1e15} {
		d := tones(2, 2)
		d.Series[0].Values[3] = v
		_, _, err := Retrain(t.Context(), d, RetrainOptions{Spec: spec}, nil)
		archivetest.WantError(t, err, fmt.Sprintf(`series %q, sample 1, channel %q: value %v is out of range, want a magnitude of at most 1e+15`, d.Series[0].ID, d.Channels[1], v))
		var content *datafile.ContentError
		if !errors.As(err, &content) {
			t.Error("no fault of the content")
		}
	}
	if math.Abs(reservoir.MaxInput) != 1e15 {
		t.Error("the bound is another one: mend the test")
	}
}
