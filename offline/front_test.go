package offline

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func parseFront(text string) (f Front, err error) {
	err = f.UnmarshalText([]byte(text))
	return f, err
}

func TestParseFront(t *testing.T) {
	for text, want := range map[string]Front{
		"decimate=20":                          {Decimate: 20},
		"normalize=60s, envelope=7,decimate=2": {Normalize: Span{Time: time.Minute}, Envelope: Span{Samples: 7}, Decimate: 2},
		"smooth=5,center=2":                    {Center: Span{Samples: 2}, Smooth: Span{Samples: 5}},
		"envelope=1.5ms,center=2":              {Center: Span{Samples: 2}, Envelope: Span{Time: 1500 * time.Microsecond}},
	} {
		got, err := parseFront(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := parseFront(got.String()); err != nil || again != want {
			t.Errorf("%s: read again as %+v, %v", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                        `"": want center, normalize, smooth, envelope or decimate, each with its length`,
		"resample=10":             `"resample=10": want center`,
		"envelope":                `"envelope": want a number of samples from 1, or a time such as 10ms`,
		"envelope=0":              `"envelope=0": want a number`,
		"envelope=-3":             `"envelope=-3": want a number`,
		"center=-3s":              `"center=-3s": want a number`,
		"envelope=9999999999":     "want a number of samples",
		"decimate=10ms":           `"decimate=10ms": want a number of samples from 1` + "\n",
		"decimate=2,":             `"": want center`,
		"center=2,normalize=3=4":  "want a number",
		"envelope=10ms,envelope=": "envelope twice, want it once",
	} {
		_, err := parseFront(text)
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Lengths in time become samples of the data's rate.
func TestFrontAtARate(t *testing.T) {
	f := Front{Normalize: Span{Time: 30 * time.Second}, Envelope: Span{Time: 30 * time.Millisecond}, Decimate: 4}
	got, err := f.at(50)
	if want := (&reservoir.Front{Normalize: 1500, Envelope: 2, Decimate: 4}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for hertz, want := range map[float64]string{
		0: "front end normalize=30s,envelope=30ms,decimate=4: want the sampling rate", 1: "envelope of 30ms is 0 samples at 1 Hz, want 1 to", 1e9: "normalize of 30s is 3e+10 samples at 1e+09 Hz",
	} {
		if _, err := f.at(hertz); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%g Hz: %v, want %s", hertz, err, want)
		}
	}
}

// A training with a front end learns the constants of the network's input from the front end's output, and keeps the
// ranges of its input; a part of a sequence that becomes no sample is not seen.
func TestRetrainWithFront(t *testing.T) {
	d := tones(30, 12)
	for i := range d.Series {
		for k := range d.Series[i].Values {
			if (k+i)%13 == 0 {
				d.Series[i].Values[k] = nan
			}
		}
	}
	front, err := parseFront("normalize=100ms,envelope=2,decimate=3")
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Rate: 100})
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Rate: 100, Front: front})
	fill := []float32{float32(m.Training.Inputs[0].Mean), float32(m.Training.Inputs[1].Mean)}
	if want := (&reservoir.Front{Normalize: 10, Envelope: 2, Decimate: 3, Fill: fill}); !reflect.DeepEqual(m.Front, want) {
		t.Errorf("front end %+v, want %+v", m.Front, want)
	}
	if !reflect.DeepEqual(m.Training.Inputs, plain.Training.Inputs) || m.Training.MinLength != plain.Training.MinLength {
		t.Errorf("ranges %+v of sequences from %d samples, want those of the samples that go in", m.Training.Inputs, m.Training.MinLength)
	}
	seen := reservoir.NewInputStatistics(2)
	for _, i := range d.Part(archive.Train) {
		s := strip{values: d.Series[i].Values}
		n := d.Len(i)
		seen.Series().Add(s.behind(m, 0, n))
	}
	if want := seen.Norm(m.Network.Spec); !reflect.DeepEqual(m.Network.Norm, want) || reflect.DeepEqual(want, plain.Network.Norm) {
		t.Errorf("constants of the input %+v, want %+v", m.Network.Norm, want)
	}
	if r.MinLength != int64(plain.Training.MinLength) {
		t.Errorf("sequences of %d samples or more", r.MinLength)
	}
	if ev := evaluated(t, m, d, EvaluateOptions{}); ev.Accuracy < .7 { // of three classes
		t.Errorf("accuracy %.2f", ev.Accuracy)
	}
	path := filepath.Join(t.TempDir(), "m")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if again, err := reservoir.Load(path); err != nil || !reflect.DeepEqual(again.Front, m.Front) {
		t.Errorf("read as %+v, %v", again, err)
	}
}

// Shards of a training with a front end make the model of a single job.
func TestShardsWithFront(t *testing.T) {
	d := tones(30, 0)
	opt := RetrainOptions{Spec: smallBank(2), Front: Front{Center: Span{Samples: 20}, Decimate: 2}}
	whole, _ := retrained(t, d, opt)
	var paths []string
	for i := range 2 {
		path := filepath.Join(t.TempDir(), "part")
		paths = append(paths, path)
		if _, err := RetrainShard(context.Background(), d, opt, Shard{i + 1, 2}, path, nil); err != nil {
			t.Fatal(err)
		}
	}
	m, _, err := MergeShards(context.Background(), paths, RetrainOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fingerprint(t, m) != fingerprint(t, whole) {
		t.Errorf("another model than that of a single job: front ends %+v and %+v", m.Front, whole.Front)
	}
	other := opt
	other.Front.Decimate = 3
	if _, err := RetrainShard(context.Background(), d, other, Shard{2, 2}, paths[1], nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = MergeShards(context.Background(), paths, RetrainOptions{}, nil)
	if err == nil || !strings.Contains(err.Error(), "the front end of one is center=20,decimate=2, of the other center=20,decimate=3") {
		t.Errorf("shards of two front ends: %v", err)
	}
}

func TestFrontsThatCannotBe(t *testing.T) {
	d := tones(30, 0)
	short := tones(30, 0)
	short.Series[4].Values = short.Series[4].Values[:2*7]
	for _, c := range []struct {
		d      *archive.Dataset
		front  string
		policy reservoir.Policy
		want   string
	}{
		{d, "envelope=10ms", reservoir.Policy{}, "want the sampling rate, of which the data say nothing (--sample-rate)"},
		{d, "center=3,normalize=1s", reservoir.Policy{}, "center and normalize, want one of them"},
		{d, "decimate=1", reservoir.Policy{}, "decimate of 1 samples, want 2 to"},
		{d, "decimate=3", reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 10}, "hop of 10 samples, want a multiple of decimate (3)"},
		{d, "decimate=3,envelope=1s", reservoir.Policy{Kind: reservoir.Count, Length: 20}, "length of 20 samples, want a multiple of decimate (3)"},
		{d, "decimate=10", reservoir.Policy{Kind: reservoir.Endless, Early: 4}, "decimate=10 makes one sample of 10, and the policy predicts after every 4 (early): want at least 10"},
		{short, "decimate=8", reservoir.Policy{}, "a sequence is shorter than the 8 samples that decimate makes one of"},
	} {
		front, err := parseFront(c.front)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Retrain(context.Background(), c.d, RetrainOptions{Spec: smallBank(2), Front: front, Policy: c.policy}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.front, err, c.want)
		}
	}
}

// No text makes the reader of front ends panic; an accepted text is written so that it reads the same.
func FuzzParseFront(f *testing.F) {
	for _, text := range []string{"decimate=20", "normalize=60s,envelope=10ms,decimate=2", "center=1h,envelope=", "=,,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		front, err := parseFront(text)
		if err != nil {
			return
		}
		if again, err := parseFront(front.String()); err != nil || again != front {
			t.Fatalf("%q is %+v, written as %q: %+v, %v", text, front, front, again, err)
		}
		if made, err := front.at(1000); err == nil && slices.Min([]int{made.Center, made.Normalize, made.Envelope, made.Decimate}) < 0 {
			t.Fatalf("%q is %+v", text, made)
		}
	})
}
