package root_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// The content of files also determines the exit code: each file is complete, but breaks a rule
// or does not match the second file.
func TestExitCodesOfContent(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	one, two := clitest.TinyData(t, "Tiny", 1, 24, 40), clitest.TinyData(t, "Tiny", 2, 24, 40)
	clitest.Must(t, "import", one, "--output", in("one"))
	clitest.Must(t, "import", two, "--output", in("two"))
	clitest.Must(t, "import", "--train", filepath.Join(one, "Tiny_TRAIN.ts"), "--output", in("train"))
	clitest.Must(t, "import", "--test", filepath.Join(one, "Tiny_TEST.ts"), "--output", in("test"))
	clitest.Must(t, "train", in("one"), "--output", in("model"), "--members", "1", "--units", "5")
	clitest.Must(t, "import", "--train", clitest.Write(t, in("a_TRAIN.txt"), "0\t1 2 3\n1\t2 3\n"), "--output", in("tokens"))
	clitest.Must(t, "import", "--train", clitest.Write(t, in("b_TRAIN.ts"), "@problemName b\n@classLabel true x fast\n@data\n1,2,3:x\n3,4,1e30:fast\n"), "--output", in("other"))
	clitest.Write(t, in("h.csv"), "stream,c0\n")
	clitest.Write(t, in("long_TRAIN.tsv"), strings.Repeat("l", 2<<20)+"\t1\t2\n")
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"import --train " + one + "/Tiny_TRAIN.ts --test " + two + "/Tiny_TEST.ts --output OUT", cli.ExitIntegrity, []string{"the train part has 1 channels, the test part 2"}},
		{"import DIR/h.csv --output OUT", cli.ExitIntegrity, []string{"no samples after the header line"}},
		{"import --train DIR/long_TRAIN.tsv --output OUT", cli.ExitIntegrity, []string{"long_TRAIN.tsv:1: label", "want at most 256"}},
		{"evaluate DIR/two --model DIR/model", cli.ExitIntegrity, []string{"the model reads 1 channels", "model show"}},
		{"evaluate DIR/other --model DIR/model --split train", cli.ExitIntegrity, []string{`class "x" of data set "b" is not among`}},
		{"train DIR/tokens --output OUT", cli.ExitIntegrity, []string{"embed the tokens first"}},
		{"evaluate DIR/tokens --model DIR/model --split train", cli.ExitIntegrity, []string{"embed the tokens first"}},
		{"train DIR/other --output OUT --members 1 --units 5", cli.ExitIntegrity, []string{`series "train-1", sample 2, channel "c0": value 1e+30 is out of range`}},
		{"evaluate DIR/train --model DIR/model", cli.ExitFailure, []string{"no test part", "try: the same command with --split train"}},
		{"evaluate DIR/test --model DIR/model --split train", cli.ExitFailure, []string{"no train part", "try: the same command with --split test"}},
		{"replay DIR/train", cli.ExitFailure, []string{"no test part", "try: the same command with --split train"}},
		{"replay DIR/tokens", cli.ExitIntegrity, []string{"token lists", "offline paper embed"}},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "OUT", in("out")).Replace(c.args))
		t.Run(c.args, func(t *testing.T) { clitest.Exec(t, t.Context(), args...).Want(t, c.code, c.says...) })
	}
	r := clitest.Must(t, "train", in("one"), "--output", in("again"), "--members", "1", "--units", "5")
	r.Want(t, cli.ExitOK, "next: eusn-stream evaluate "+in("one")+" --model "+in("again"))
}

// One rule determines the exit code of an unusable file, for all kinds of files and commands: 1
// if missing, 5 for wrong content, 3 for a configuration.
func TestExitCodesOfFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 1, 24, 40), "--output", in("archive"))
	clitest.Must(t, "import", clitest.Write(t, in("r.csv"), "stream,seq,c0,end\ns,0,1.5,false\ns,1,2.5,true\n"), "--output", in("recording"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--members", "1", "--units", "5")
	clitest.Must(t, "offline", "paper", "memory", "--models", "eusn", "--lengths", "30", "--configurations", "1", "--draws", "1", "--output", in("results"), "--curves", in("table"))
	for _, c := range []struct {
		file, args string
		code       int
	}{
		{"archive", "evaluate FILE --model MODEL", cli.ExitIntegrity},
		{"archive", "train FILE --output OUT", cli.ExitIntegrity},
		{"archive", "offline paper tables FILE --output OUT", cli.ExitIntegrity},
		{"archive", "offline paper compare FILE --draws 1 --output OUT", cli.ExitIntegrity},
		{"archive", "offline paper embed FILE --output OUT", cli.ExitIntegrity},
		{"archive", "replay FILE", cli.ExitIntegrity},
		{"recording", "replay FILE", cli.ExitIntegrity},
		{"r.csv", "import FILE --output OUT", cli.ExitIntegrity},
		{"model", "evaluate ARCHIVE --model FILE", cli.ExitIntegrity},
		{"model", "model show FILE", cli.ExitIntegrity},
		{"model", "run --model FILE", cli.ExitIntegrity},
		{"results", "offline paper report FILE --output OUT", cli.ExitIntegrity},
		{"results", "offline paper memory --models eusn --lengths 30 --configurations 1 --draws 1 --resume --output FILE", cli.ExitIntegrity},
		{"table", "offline paper figures --only 4 --memory FILE --output OUT", cli.ExitIntegrity},
		{"model", "state diff FILE FILE", cli.ExitIntegrity},
		{"model", "run -c FILE", cli.ExitConfig},
		{"table", "config check FILE", cli.ExitConfig},
	} {
		whole := clitest.Read(t, in(c.file))
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
				clitest.Exec(t, t.Context(), args(path)...).Want(t, c.code, path)
				if c.file == "results" && strings.Contains(c.args, "--resume") {
					return // creates a missing file
				}
				code := cli.ExitFailure
				if c.code == cli.ExitConfig {
					code = cli.ExitConfig
				}
				clitest.Exec(t, t.Context(), args(in("none"))...).Want(t, code, in("none"))
			})
		}
	}
}
