package root_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/jobcmd"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"bogus"}, `unknown command "bogus"`},
		{[]string{"version", "--bogus"}, "unknown flag --bogus for \"eusn-stream version\""},
		{[]string{"version", "extra"}, "extra"},
		{[]string{"trian", "p.csv", "--policy", "window"}, `unknown command "trian"` + "\ntry: eusn-stream train\n"},
		{[]string{"-q", "promote"}, "try: eusn-stream model promote\n"},
		{[]string{"train", "--out", "m"}, "try: eusn-stream train --output\n"},
		{[]string{"run", "--natsurl", "u"}, "try: eusn-stream run --nats-url\n"},
		{[]string{"record", "--max-time", "u"}, "try: eusn-stream record --max-size\n"},
		{[]string{"status", "-n", "soon"}, "want a duration"},
		{[]string{"run", "--port", "010"}, "want a number without leading zeros"},
		{[]string{"train", "--members", "0x1_0"}, "want a number without leading zeros"},
		{[]string{"completion", "tcsh"}, `unknown command "tcsh" for "eusn-stream completion"`},
		{[]string{"config", "bogus"}, `unknown command "bogus" for "eusn-stream config"`},
		{[]string{"train", "a", "--progress", "loud"}, "want auto, plain or none"},
		{[]string{"train"}, "which data? eusn-stream train DATA"},
		{[]string{"import"}, "nothing to import"},
		{[]string{"train", "a", "--network", "rnn"}, "want bank, eusn, esn or resn"},
		{[]string{"train", "a", "--network", "bank", "--eps", "0.1"}, "--eps is a parameter of --network eusn"},
		{[]string{"train", "a", "--eps", "0.1", "--members", "3"}, "--members is a parameter of --network bank"},
		{[]string{"train", "a", "--bank", "huge"}, "--bank huge: want one of standard, large, small, tiny, euler"},
		{[]string{"train", "a", "--bank", "small", "--members", "3"}, "--members is a parameter of --bank euler, not of small"},
		{[]string{"train", "a", "--bank", "large", "--units", "16"}, "--units is a parameter of --bank euler, not of large"},
		{[]string{"train", "a", "--bank", "tiny", "--features", "last"}, "--features is a parameter of --bank euler, not of tiny"},
		{[]string{"train", "a", "--bank", "euler", "--network", "esn"}, "--bank is a parameter of --network bank, not of esn"},
		{[]string{"train", "a", "--policy", "window", "--length", "7", "--hop", "2"}, "not a multiple"},
		{[]string{"evaluate", "a", "--split", "half"}, "want train or test"},
		{[]string{"model", "verify"}, "an argument is missing: want FILE\ntry: eusn-stream model verify FILE\n"},
		{[]string{"model", "verify", "a", "b"}, "unexpected argument \"b\"\ntry: eusn-stream model verify FILE\n"},
		{[]string{"predict"}, "an argument is missing: want FILES\n"},
		{[]string{"job", "backfill"}, "--since and --output: want a value\ntry: eusn-stream job backfill --since TIME --output FILE\n"},
		{[]string{"status", "-s"}, "unknown flag -s for \"eusn-stream status\""},
		{[]string{"run", "-p", "1"}, "unknown flag -p for \"eusn-stream run\"\ntry: eusn-stream run --port\n"},
		{[]string{"run", "--model"}, "--model: a value is missing\ntry: eusn-stream run --model VALUE\n"},
		{[]string{"run", "--port", "80x"}, "eusn-stream: --port 80x: want a whole number\n"},
		{[]string{"evaluate", "--min-accuracy", "high"}, "eusn-stream: --min-accuracy high: want a number\n"},
		{[]string{"import", "--force=maybe"}, "eusn-stream: --force maybe: want true or false\n"},
		{[]string{"bench", "--units", "1,x"}, "eusn-stream: --units 1,x: want whole numbers with commas between them\n"},
		{[]string{"labels", "add", "--stream", "p"}, "eusn-stream: want --since or --seq\n"},
		{[]string{"labels", "add", "--stream", "p", "--seq", "1"}, "eusn-stream: --seq: want --row too\n"},
		{[]string{"status", "--all", "--watch"}, "eusn-stream: --all and --watch exclude each other: want one of them\n"},
		{[]string{"gateway", "--engine", "avx2"}, "unknown flag --engine for \"eusn-stream gateway\""},
		{[]string{"status", "--progress", "plain"}, "unknown flag --progress for \"eusn-stream status\""},
		{[]string{"help", "bogus"}, `no help on "bogus"`},
		{[]string{"help", "offline", "bogus"}, `no help on "offline bogus"`},
		{[]string{"train", "a", "--length", "20"}, "--length is a parameter of --policy window, count, not of marked"},
		{[]string{"train", "a", "--policy", "count", "--length", "9", "--hop", "3"}, "--hop is a parameter of --policy window"},
		{[]string{"train", "a", "--threads", "-1"}, "--threads -1"},
		{[]string{"evaluate", "a", "--min-accuracy", "nan"}, "--min-accuracy NaN: want a share of 1"},
		{[]string{"evaluate", "a", "--threads", "-1"}, "--threads -1: want 0 or more"},
		{[]string{"train", "a", "--output", ""}, "--output: want the name of a file"},
		{[]string{"import", "a", "--num-words", "-2"}, "--num-words -2"},
		{[]string{"replay", "a", "--send-rate", "NaN"}, "--streams, --rows and --send-rate: want positive numbers"},
		{[]string{"replay", "a", "--speed", "1e300x"}, "want 1x, 10x, ... or max"},
		{[]string{"demo", "--train-series", "3"}, "--train-series 3, --test-series 300: want at least 4 of each"},
		{[]string{"demo", "--members", "0"}, "want positive numbers"},
		{[]string{"train", "a", "--alpha", "-1"}, "--alpha"},
		{[]string{"train", "a", "--alpha", "2,1"}, "want ascending order"},
		{[]string{"train", "a", "--alpha", "nan"}, "--alpha"},
		{[]string{"train", "a", "--members", "100000"}, "members = 100000, want 1 to 4096"},
		{[]string{"train", "a", "--members", "0"}, "members = 0, want 1 to 4096"},
		{[]string{"train", "a", "--members", "4096", "--units", "8192"}, "weights, want at most"},
		{[]string{"train", "a", "--units", "0"}, "--units 0: want 1 to 8192"},
		{[]string{"train", "a", "--network", "eusn", "--units", "-3"}, "--units -3: want 1 to 8192"},
		{[]string{"train", "a", "--eps", "-1"}, "eps = -1..-1, want positive values"},
		{[]string{"train", "a", "--leak", "2"}, "leak = 2, want at most 1"},
		{[]string{"train", "a", "--features", "first"}, `feature "first", want last`},
	} {
		clitest.Exec(t, t.Context(), c.args...).Want(t, cli.ExitUsage, c.says, "try: eusn-stream")
	}
	clitest.Exec(t, t.Context(), "run", "-v").Want(t, cli.ExitUsage, "unknown flag -v", "try: EUSN_LOG_LEVEL=debug eusn-stream run\n")
	clitest.Exec(t, t.Context(), "help", "bogus").Want(t, cli.ExitUsage, "try: eusn-stream --help") // not the help of help
}

// With --json the error is a line of JSON, also if the flags are wrong.
func TestErrorsAsJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"model", "show", "none.safetensors", "--json"}, cli.ExitFailure, "none.safetensors"},
		{[]string{"status", "--bogus", "--json"}, cli.ExitUsage, "unknown flag --bogus"},
		{[]string{"bogus", "--json"}, cli.ExitUsage, "unknown command"},
	} {
		r := clitest.Exec(t, t.Context(), c.args...)
		var e struct {
			Level, Msg, Try string
			Code            int `json:"exit_code"`
		}
		if err := json.Unmarshal([]byte(r.ErrOut), &e); err != nil || r.Out != "" || r.Code != c.code || e.Code != c.code || e.Level != "ERROR" || !strings.Contains(e.Msg, c.says) || e.Try == "" {
			t.Errorf("%v: exit code %d, %v, printed %q and %q", c.args, r.Code, err, r.Out, r.ErrOut)
		}
	}
}

func TestHelp(t *testing.T) {
	if r := clitest.Must(t); !strings.Contains(r.Out, "eusn-stream demo") {
		t.Errorf("help does not begin with the demo:\n%s", r.Out)
	}
	if r := clitest.Must(t, "help", "exit-codes"); !strings.Contains(r.Out, "130  interrupted") {
		t.Errorf("help exit-codes:\n%s", r.Out)
	}
	var codes []cli.ExitCode
	clitest.Must(t, "help", "exit-codes", "--json").Parse(t, &codes)
	if len(codes) != 10 || codes[8].Code != cli.ExitUsage || !strings.HasPrefix(codes[8].Meaning, "usage: ") {
		t.Errorf("help exit-codes --json: %+v", codes)
	}
	if r := clitest.Must(t); !strings.HasSuffix(r.ErrOut, "next: eusn-stream demo\n") {
		t.Errorf("without arguments: %q, want the demo as the next step", r.ErrOut)
	}
	if r := clitest.Must(t, "help", "train"); !strings.Contains(r.Out, "Draw a reservoir") || !strings.Contains(r.Out, "--help") {
		t.Errorf("help train:\n%s", r.Out)
	}
	if r := clitest.Must(t, "completion", "bash"); !strings.Contains(r.Out, "eusn-stream") {
		t.Error("no bash completion")
	}
}

// Help shows the value of an unset flag.
func TestHelpShowsDefaults(t *testing.T) {
	for args, want := range map[string][]string{
		"run":    {`(default "eusn-data")`, "(default 4222)", "0 = the job's, of a new job 16", `(default "model.safetensors")`},
		"replay": {`(default "sensors.*")`, `(default "eusn")`},
		"status": {`(default "eusn")`, `(default "eusn-data")`},
		"doctor": {`(default "eusn")`},
	} {
		r := clitest.Must(t, args, "--help")
		for _, w := range want {
			if !strings.Contains(r.Out, w) {
				t.Errorf("%s --help lacks %q:\n%s", args, w, r.Out)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	var b cli.BuildInfo
	clitest.Must(t, "version", "--json").Parse(t, &b)
	if r := clitest.Must(t, "--version"); !strings.Contains(r.Out, b.Version) {
		t.Errorf("--version prints %q, want version %s in it", r.Out, b.Version)
	}
	if b.Go == "" || b.Arithmetic < 1 || !strings.HasPrefix(b.Version, cli.Version) {
		t.Errorf("version --json gives %+v", b)
	}
}

func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	var found []jobcmd.Finding
	clitest.Must(t, "doctor", "--json", "--dir", filepath.Join(dir, "a", "b")).Parse(t, &found)
	lines := map[string]string{}
	for _, f := range found {
		lines[f.Subject] = f.Status
		if !strings.HasSuffix(f.Sentence, ".") {
			t.Errorf("%q is not a sentence", f.Sentence)
		}
	}
	if lines["cpu"] != "ok" || lines["directory"] != "ok" || lines["nats"] != "ok" || lines["gpu"] == "" || lines["memory"] == "" {
		t.Errorf("findings %v", lines)
	}
	if left := clitest.Leftovers(t, dir); len(left) > 0 {
		t.Errorf("doctor left %v behind", left)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if r := clitest.Must(t, "doctor", "--dir", open); !strings.Contains(r.Out, "chmod 700 "+open) {
		t.Errorf("doctor on a data directory that others can read:\n%s", r.Out)
	}
	clitest.Exec(t, t.Context(), "doctor", "--nats-url", "nats://127.0.0.1:1").Want(t, cli.ExitUnreachable, "127.0.0.1:1", "try:")
	file := clitest.Write(t, filepath.Join(dir, "file"), "not a directory")
	r := clitest.Exec(t, t.Context(), "doctor", "--dir", file)
	r.Want(t, cli.ExitFailure)
	if !strings.Contains(r.Out, "cannot be written") {
		t.Errorf("doctor on a file as data directory:\n%s", r.Out)
	}
}

func TestModelFiles(t *testing.T) {
	clitest.Exec(t, t.Context(), "model", "show", "none.safetensors").Want(t, cli.ExitFailure, "none.safetensors", "try: eusn-stream train")
	bad := clitest.Write(t, filepath.Join(t.TempDir(), "bad"), "these are not tensors")
	clitest.Exec(t, t.Context(), "model", "verify", bad).Want(t, cli.ExitIntegrity, bad)
}
