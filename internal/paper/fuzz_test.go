package paper

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzResume reads any bytes as a results file, in both ways: no panic; a refused file is
// unchanged; an accepted file only loses an incomplete end and can be reread.
func FuzzResume(f *testing.F) {
	settings := `{"settings":{"protocol":"paper-exact","seed":1,"arithmetic":1,"format":1}}` + "\n"
	f.Add([]byte(settings + `{"data":{"dataset":"a","train":"x","test":"y"}}` + "\n" + `{"trial":{"dataset":"a","model":"eusn","index":3,"config":{"units":10,"seed":1},"validation":{"correct":1,"of":2}}}` + "\n"))
	f.Add([]byte(settings + `{"draw":{"dataset":"a","model":"eusn","index":-1}}` + "\n" + `{"cell":{}}` + "\n" + `{"tri`))
	f.Add([]byte(settings + settings))
	f.Add([]byte(settings + `{"metering":{"cpu":{"source":"RAPL package-0","idle_watts":1e999,"idle_seconds":5}}}` + "\n"))
	f.Add([]byte(settings + `{"data":{"dataset":"a","train":"x","test":"y"}}` + "\n" + `{"cell":{"dataset":"a","model":"gru","missing":"no time"}}` + "\n"))
	f.Add([]byte(settings + `{"draw":{"dataset":"a","model":"gru","index":0,"test":{"correct":1,"of":0},"energy":{"cpu":{"wh":1,"above_idle_wh":-1}}}}` + "\n" + `{"cell":{"dataset":"a","model":"gru","missing":"no time"}}` + "\n"))
	f.Add([]byte(settings + `{"data":{"dataset":"a","train":"x","test":"y","asked":2,"classes":2,"truth":[0,-1]}}` + "\n" + `{"trial":{"dataset":"a","model":"esn","index":0,"validation":{"correct":1,"of":2}}}` + "\n" +
		`{"draw":{"dataset":"a","model":"esn","index":0,"test":{"correct":1,"of":2},"predicted":[0,1]}}` + "\n" +
		`{"cell":{"dataset":"a","model":"esn","configurations":1,"draws":1,"accuracy":0.5}}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Add([]byte("null\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if rs, err := ReadResults(path); err == nil {
			for _, c := range rs.Cells() {
				if c.Missing != "" && len(rs.DrawsOf(c)) == 0 {
					continue
				}
				if len(rs.DrawsOf(c)) < 1 || !(c.Accuracy >= 0 && c.Accuracy <= 1) {
					t.Errorf("read without complaint: %+v", c)
				}
			}
			rs.Unfinished()
		}
		s := NewSettings(PaperExact, 1)
		st, err := Resume(path, s)
		if err != nil {
			if after, _ := os.ReadFile(path); string(after) != string(text) {
				t.Errorf("refused with %v, and changed from %q to %q", err, text, after)
			}
			return
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Resume(path, s)
		if err != nil {
			t.Fatalf("accepted once, then: %v", err)
		}
		defer again.Close()
		if len(again.trials) != len(st.trials) || len(again.draws) != len(st.draws) {
			t.Errorf("%d and %d results, then %d and %d", len(st.trials), len(st.draws), len(again.trials), len(again.draws))
		}
	})
}
