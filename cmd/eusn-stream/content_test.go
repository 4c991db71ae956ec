package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What files hold decides the exit code also where each is whole, but breaks a
// rule or does not belong to the other.
func TestExitCodesOfContent(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	one, two := tinyData(t, "Tiny", 1, 24, 40), tinyData(t, "Tiny", 2, 24, 40)
	must(t, "offline", "import", one, "--out", in("one"))
	must(t, "offline", "import", two, "--out", in("two"))
	must(t, "offline", "import", "--train", filepath.Join(one, "Tiny_TRAIN.ts"), "--out", in("train"))
	must(t, "offline", "import", "--test", filepath.Join(one, "Tiny_TEST.ts"), "--out", in("test"))
	must(t, "offline", "retrain", "--archive", in("one"), "--out", in("model"), "--members", "1", "--units", "5")
	must(t, "offline", "import", "--train", write(t, in("a_TRAIN.txt"), "0\t1 2 3\n1\t2 3\n"), "--out", in("tokens"))
	must(t, "offline", "import", "--train", write(t, in("b_TRAIN.ts"), "@problemName b\n@classLabel true x fast\n@data\n1,2,3:x\n3,4,1e30:fast\n"), "--out", in("other"))
	write(t, in("h.csv"), "stream,c0\n")
	write(t, in("long_TRAIN.tsv"), strings.Repeat("l", 2<<20)+"\t1\t2\n")
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"offline import --train " + one + "/Tiny_TRAIN.ts --test " + two + "/Tiny_TEST.ts --out OUT", exitIntegrity, []string{"the train part has 1 channels, the test part 2"}},
		{"offline import --csv DIR/h.csv --out OUT", exitIntegrity, []string{"no samples after the header line"}},
		{"offline model DIR/h.csv --out OUT", exitIntegrity, []string{"h.csv: no samples after the header line"}},
		{"offline import --train DIR/long_TRAIN.tsv --out OUT", exitIntegrity, []string{"long_TRAIN.tsv:1: label", "want at most 256"}},
		{"offline evaluate --model DIR/model --archive DIR/two", exitIntegrity, []string{"the model reads 1 channels", "model inspect"}},
		{"offline evaluate --model DIR/model --archive DIR/other --split train", exitIntegrity, []string{`class "x" of data set "b" is not among`}},
		{"offline retrain --archive DIR/tokens --out OUT", exitIntegrity, []string{"embed the tokens first"}},
		{"offline evaluate --model DIR/model --archive DIR/tokens --split train", exitIntegrity, []string{"embed the tokens first"}},
		{"offline retrain --archive DIR/other --out OUT --members 1 --units 5", exitIntegrity, []string{`series "train-1", sample 2, channel "c0": value 1e+30 is out of range`}},
		{"offline evaluate --model DIR/model --archive DIR/train", exitFailure, []string{"no test part", "try: the same command with --split train"}},
		{"offline evaluate --model DIR/model --archive DIR/test --split train", exitFailure, []string{"no train part", "try: the same command with --split test"}},
		{"replay --archive DIR/train", exitFailure, []string{"no test part", "try: the same command with --split train"}},
		{"replay --archive DIR/tokens", exitIntegrity, []string{"token lists", "offline embed"}},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "OUT", in("out")).Replace(c.args))
		t.Run(c.args, func(t *testing.T) { exec(t, t.Context(), args...).want(t, c.code, c.says...) })
	}
	r := must(t, "offline", "retrain", "--archive", in("one"), "--out", in("again"), "--members", "1", "--units", "5")
	r.want(t, exitOK, "next: eusn-stream offline evaluate --model "+in("again")+" --archive "+in("one"))
}

// One rule gives the exit code of a file that cannot be used, whatever kind of
// file and command: 1 where it is not there, 5 where its content is at fault, 3
// for a configuration's.
func TestExitCodesOfFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, "offline", "import", tinyData(t, "Tiny", 1, 24, 40), "--out", in("archive"))
	must(t, "offline", "import", "--csv", write(t, in("r.csv"), "stream,seq,c0,end\ns,0,1.5,false\ns,1,2.5,true\n"), "--out", in("recording"))
	must(t, "offline", "retrain", "--archive", in("archive"), "--out", in("model"), "--members", "1", "--units", "5")
	must(t, "offline", "memory", "--models", "eusn", "--lengths", "30", "--configurations", "1", "--draws", "1", "--out", in("results"), "--csv", in("table"))
	for _, c := range []struct {
		file, args string
		code       int
	}{
		{"archive", "offline evaluate --model MODEL --archive FILE", exitIntegrity},
		{"archive", "offline retrain --archive FILE --out OUT", exitIntegrity},
		{"archive", "offline bench FILE --out OUT", exitIntegrity},
		{"archive", "offline model FILE --out OUT", exitIntegrity},
		{"archive", "offline embed FILE --out OUT", exitIntegrity},
		{"archive", "replay --archive FILE", exitIntegrity},
		{"recording", "replay --archive FILE", exitIntegrity},
		{"r.csv", "offline import --csv FILE --out OUT", exitIntegrity},
		{"model", "offline evaluate --model FILE --archive ARCHIVE", exitIntegrity},
		{"model", "model inspect FILE", exitIntegrity},
		{"model", "run --model FILE", exitIntegrity},
		{"results", "offline report FILE --out OUT", exitIntegrity},
		{"results", "offline memory --models eusn --lengths 30 --configurations 1 --draws 1 --resume --out FILE", exitIntegrity},
		{"table", "offline figures --only 4 --memory FILE --out OUT", exitIntegrity},
		{"model", "state diff FILE FILE", exitIntegrity},
		{"model", "run -c FILE", exitConfig},
		{"table", "config check FILE", exitConfig},
	} {
		whole := read(t, in(c.file))
		for name, content := range map[string][]byte{
			"of another kind": []byte("hello: world\n"),
			"damaged":         append([]byte("?"), whole[:len(whole)/2]...),
		} {
			t.Run(c.args+" "+c.file+" "+name, func(t *testing.T) {
				path := in("broken")
				if strings.HasSuffix(c.file, ".csv") {
					path += ".csv"
				}
				if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
				args := func(path string) []string {
					return strings.Fields(strings.NewReplacer("FILE", path, "MODEL", in("model"), "ARCHIVE", in("archive"), "OUT", in("out")).Replace(c.args))
				}
				exec(t, t.Context(), args(path)...).want(t, c.code, path)
				if c.file == "results" && strings.Contains(c.args, "--resume") {
					return // begins one that is not there
				}
				code := exitFailure
				if c.code == exitConfig {
					code = exitConfig
				}
				exec(t, t.Context(), args(in("none"))...).want(t, code, in("none"))
			})
		}
	}
}
