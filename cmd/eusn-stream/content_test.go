package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
