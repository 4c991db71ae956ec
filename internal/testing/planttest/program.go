package planttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// variable is the environment variable for the program of a test binary.
const (
	variable  = "EUSN_TEST_AS_PROGRAM"
	asProgram = "1"    // eusn-stream
	asServer  = "nats" // a NATS server
)

// Main is the TestMain of a package whose tests start programs: the test binary runs as
// each program, in a separate process.
func Main(m *testing.M) {
	switch os.Getenv(variable) {
	case "":
	case asServer:
		fmt.Fprintln(os.Stderr, natsProcess(os.Args[1:]))
		os.Exit(1)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop)
		os.Exit(root.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Command returns a command for eusn-stream in a separate process.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), variable+"="+asProgram)
	return cmd
}

// FreePort returns a TCP port of this machine that no program uses. The port is below the range
// from which Linux gives ports to connections (32768 to 60999), because a connection of another
// test can take a port of that range before the caller listens on it.
func FreePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return ""
}

// natsProcess runs a NATS server until the process is killed.
func natsProcess(args []string) error {
	if len(args) != 2 {
		return errors.New("want a directory and a port")
	}
	port, err := strconv.Atoi(args[1])
	if err == nil {
		_, err = natsserver.Start(context.Background(), natsserver.Options{Dir: args[0], Port: port})
	}
	if err != nil {
		return err
	}
	select {}
}
