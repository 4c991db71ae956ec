package outcome

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// line is an answer in JSON as encoding/json writes it.
type line struct {
	Class       string    `json:"class"`
	Score       float32   `json:"score"`
	Probability float32   `json:"probability,omitempty"`
	Scores      []float32 `json:"scores,omitempty"`
	Set         []string  `json:"set,omitzero"`
	Novelty     *float32  `json:"novelty,omitempty"`
	NoveltyP    float32   `json:"novelty_p,omitempty"`
	Inputs      []float32 `json:"inputs,omitzero"`
	Change      float32   `json:"change,omitempty"`
	Value       *float32  `json:"value,omitempty"`
	Low         *float32  `json:"low,omitempty"`
	High        *float32  `json:"high,omitempty"`
	Integrity   string    `json:"integrity"`
	Flags       string    `json:"flags,omitempty"`
}

// TestNamedIsJSON checks that Named writes the bytes of encoding/json: numbers of every size,
// names with marks, and no field for a missing value.
func TestNamedIsJSON(t *testing.T) {
	labels := []string{`a "quoted" <name>`, "b,\n", "ü"}
	r := rand.New(rand.NewPCG(1, 2))
	number := func() float32 {
		for {
			if v := math.Float32frombits(r.Uint32()); v-v == 0 {
				return []float32{v, r.Float32(), 0, float32(r.IntN(100))}[r.IntN(4)]
			}
		}
	}
	list := func() []float32 {
		all := make([]float32, 1+r.IntN(3))
		for i := range all {
			all[i] = number()
		}
		return all
	}
	for range 3000 {
		a := Answer{Class: int32(r.IntN(3)), Score: number(), Flags: Flag(r.Uint32N(1 << len(FlagNames)))}
		if r.IntN(2) == 0 {
			a.Flags = 0
		}
		want := line{Class: labels[a.Class], Score: a.Score, Integrity: a.Flags.Integrity(), Flags: a.Flags.String()}
		if r.IntN(2) == 0 {
			a.Probability, a.Change = number(), number()
			want.Probability, want.Change = a.Probability, a.Change
		}
		if r.IntN(2) == 0 {
			a.Scores, a.Inputs = list(), list()
			want.Scores, want.Inputs = a.Scores, a.Inputs
		}
		if r.IntN(2) == 0 {
			a.Set, want.Set = []int32{}, []string{}
			for k := range int32(r.IntN(4)) {
				a.Set, want.Set = append(a.Set, k), append(want.Set, labels[k])
			}
		}
		if r.IntN(2) == 0 {
			a.Novelty, a.NoveltyP = number(), .5
			want.Novelty, want.NoveltyP = &a.Novelty, a.NoveltyP
		}
		if r.IntN(2) == 0 {
			a.Number = Number{number(), number(), number(), true}
			want.Value, want.Low, want.High = &a.Number.Value, &a.Number.Low, &a.Number.High
		}
		got, err := json.Marshal(Named{&a, labels})
		if err != nil {
			t.Fatal(err)
		}
		expected, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(expected) {
			t.Fatalf("%+v is\n%s, want\n%s", a, got, expected)
		}
	}
}

// TestNamedUnusual: JSON has no number beyond float32 and no NaN; a class without a label does
// not end the program.
func TestNamedUnusual(t *testing.T) {
	inf := float32(math.Inf(1))
	a := Answer{Class: 2, Score: float32(math.NaN()), Scores: []float32{inf, -inf}, Set: []int32{-1}}
	got, err := json.Marshal(Named{&a, []string{"a"}})
	if want := `{"class":"?","score":0,"scores":[3.4028235e+38,-3.4028235e+38],"set":["?"],"integrity":"complete"}`; err != nil || string(got) != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}

// TestTextOfColumns: the text of a column is empty exactly if JSON has no field, except for
// flags, which may be empty in CSV.
func TestTextOfColumns(t *testing.T) {
	full := Answer{
		Class: 1, Score: -.5, Probability: .25, Scores: []float32{1, 2.5}, Set: []int32{0, 1}, Novelty: 2, NoveltyP: .125, Inputs: []float32{0, -1},
		Change: .5, Number: Number{1, 0, 2, true}, Flags: FlagGap | FlagEarly,
	}
	n := Named{&full, []string{"a,b", "c"}}
	want := map[string]string{
		"class": "c", "score": "-0.5", "probability": "0.25", "scores": "1 2.5", "set": `["a,b","c"]`, "novelty": "2", "novelty_p": "0.125",
		"inputs": "[0,-1]", "change": "0.5", "value": "1", "low": "0", "high": "2", "integrity": "gap", "flags": "gap|early",
	}
	for i := range Columns {
		c := &Columns[i]
		if got := n.Text(c); got != want[c.Name] {
			t.Errorf("%s is %q, want %q", c.Name, got, want[c.Name])
		}
		if got := (Named{new(Answer), n.Labels}).Text(c); c.Part != Always && got != "" {
			t.Errorf("%s of an answer without it is %q", c.Name, got)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("no column %v", want)
	}
}

// TestColumnsAreWhole: each column of only some readouts has a value of one kind, a meaning
// and a reason for absence.
func TestColumnsAreWhole(t *testing.T) {
	names := map[string]bool{}
	for i := range Columns {
		c := &Columns[i]
		if c.Means == "" || names[c.Name] || c.Arrow != "" && names[c.Arrow] && c.Arrow != c.Name {
			t.Errorf("column %s: no meaning, or the name is there twice", c.Name)
		}
		names[c.Name], names[c.Arrow] = true, true
		if c.Part == Always {
			continue
		}
		kinds := map[Type]bool{Float32: c.Float != nil, FloatList: c.Floats != nil, ClassList: c.Classes != nil}
		if c.Arrow != c.Name || !c.Null || c.Absent == "" || c.Known == nil || !kinds[c.Type] || c.Known(new(Answer)) {
			t.Errorf("column %s is not whole: %+v", c.Name, c)
		}
	}
}

// TestJoin: objects become one object, in order; an empty object adds nothing.
func TestJoin(t *testing.T) {
	got, err := Join(struct{}{}, map[string]int{"a": 1}, struct{}{}, map[string]int{"b": 2, "c": 3})
	if err != nil || string(got) != `{"a":1,"b":2,"c":3}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Join(map[string]float64{"a": math.NaN()}); err == nil {
		t.Error("what is no JSON is joined")
	}
}
