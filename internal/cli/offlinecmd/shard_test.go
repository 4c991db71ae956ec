package offlinecmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// The shards of a job array make the model of a single job, and the first message describes how.
func TestRetrainInShards(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	network := []string{archive, "--members", "2", "--units", "8"}
	one := clitest.Must(t, append([]string{"train", "--output", in("one"), "--memory", "100MB"}, network...)...)
	one.Want(t, cli.ExitOK, "80 features per sequence", "; memory: at most ")
	merge := []string{"train", "--merge", "--output", in("all")}
	for i, shard := range []string{"0+1/2", "2/2"} { // as a job array that counts from 0 writes it, and as a person
		part := in(fmt.Sprint("part", i))
		clitest.Must(t, append([]string{"train", "--output", part, "--shard", shard}, network...)...).
			Want(t, cli.ExitOK, "train --merge FILES")
		merge = append(merge, part)
	}
	clitest.Must(t, merge...).Want(t, cli.ExitOK, "eusn-stream evaluate DATA --model")
	a, err := os.ReadFile(in("one"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(in("all"))
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Error("the shards give another model than one job")
	}
	clitest.Exec(t, t.Context(), merge[:len(merge)-1]...).Want(t, cli.ExitIntegrity, "shard 2 of 2 is missing")
	clitest.Exec(t, t.Context(), append(merge, "--members", "3")...).Want(t, cli.ExitUsage, "--members belongs to the commands that make the shards")
	clitest.Exec(t, t.Context(), "train", "--merge").Want(t, cli.ExitUsage, "want the files of all shards")
	clitest.Exec(t, t.Context(), "train", "--output", in("x")).Want(t, cli.ExitUsage, "train DATA")
	clitest.Exec(t, t.Context(), append([]string{"train", "--shard", "1/2"}, network...)...).Want(t, cli.ExitUsage, "want --output")
	for _, s := range []string{"0/2", "3/2", "2", "a/b", "2+1/2", "-1+1/2", "0+2/2"} {
		clitest.Exec(t, t.Context(), append([]string{"train", "--output", in("x"), "--shard", s}, network...)...).Want(t, cli.ExitUsage, "want i/n")
	}
	for _, s := range []string{"4", "GB", "-1GB", "4XB", "1e30GB"} {
		clitest.Exec(t, t.Context(), append([]string{"train", "--output", in("x"), "--memory", s}, network...)...).Want(t, cli.ExitUsage, "want a size")
	}
	clitest.Exec(t, t.Context(), "train", archive, "--output", in("x"), "--memory", "1MB", "--members", "100").Want(t, cli.ExitFailure, "give more memory")
	clitest.Exec(t, t.Context(), "train", archive, "--output", in("x"), "--memory", "1MB", "--bank", "large").Want(t, cli.ExitFailure, "train DATA --bank standard, or more --memory")

	// Features that do not fit into memory go to a file, and the bits stay.
	for memory, where := range map[string]string{"1MB": "all features are kept, in a temporary file", "1GB": "all features are kept; memory: at most"} {
		clitest.Must(t, "train", archive, "--output", in(memory), "--memory", memory, "--members", "20").Want(t, cli.ExitOK, where)
	}
	if a, err = os.ReadFile(in("1MB")); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(in("1GB")); err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Error("little memory gives another model")
	}
}
