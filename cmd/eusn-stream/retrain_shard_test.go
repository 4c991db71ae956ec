package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A job array's shards make the model of one job, and what is said before the
// work begins tells how.
func TestRetrainInShards(t *testing.T) {
	archive, dir := importTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	network := []string{"--archive", archive, "--members", "2", "--units", "8"}
	one := must(t, append([]string{"offline", "retrain", "--out", in("one"), "--memory", "100MB"}, network...)...)
	one.want(t, exitOK, "80 features of each", "of memory")
	merge := []string{"offline", "retrain", "--merge", "--out", in("all")}
	for i := range 2 {
		part := in(fmt.Sprint("part", i))
		must(t, append([]string{"offline", "retrain", "--out", part, "--shard", fmt.Sprintf("%d/2", i+1)}, network...)...).
			want(t, exitOK, "offline retrain --merge FILES")
		merge = append(merge, part)
	}
	must(t, merge...).want(t, exitOK, "eusn-stream offline evaluate --model")
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
	exec(t, t.Context(), merge[:len(merge)-1]...).want(t, exitIntegrity, "shard 2 of 2 is missing")
	exec(t, t.Context(), append(merge, "--members", "3")...).want(t, exitUsage, "--members is said when the shards are made")
	exec(t, t.Context(), "offline", "retrain", "--merge").want(t, exitUsage, "want the files of all shards")
	exec(t, t.Context(), "offline", "retrain", "--out", in("x")).want(t, exitUsage, `"archive" not set`)
	exec(t, t.Context(), append([]string{"offline", "retrain", "--shard", "1/2"}, network...)...).want(t, exitUsage, "want --out")
	for _, s := range []string{"0/2", "3/2", "2", "a/b"} {
		exec(t, t.Context(), append([]string{"offline", "retrain", "--out", in("x"), "--shard", s}, network...)...).want(t, exitUsage, "want i/n")
	}
	for _, s := range []string{"4", "GB", "-1GB", "4XB", "1e30GB"} {
		exec(t, t.Context(), append([]string{"offline", "retrain", "--out", in("x"), "--memory", s}, network...)...).want(t, exitUsage, "want a size")
	}
	exec(t, t.Context(), "offline", "retrain", "--archive", archive, "--out", in("x"), "--memory", "1MB", "--members", "100").want(t, exitFailure, "give more memory")

	// Features that find no room in memory go to a file, and the bits stay.
	for memory, where := range map[string]string{"1MB": "all features are kept, in a temporary file", "1GB": "all features are kept; at most"} {
		must(t, "offline", "retrain", "--archive", archive, "--out", in(memory), "--memory", memory, "--members", "20").want(t, exitOK, where)
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
