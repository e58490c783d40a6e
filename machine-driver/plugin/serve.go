package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// heartbeatTimeout: libmachine sends a heartbeat every five seconds.
	heartbeatTimeout = 10 * time.Second
	// cleanUpTimeout is how long a call that is interrupted may take to remove what it was making.
	cleanUpTimeout = 20 * time.Second
)

// IsStartedByMachine says whether rancher-machine has started this program.
func IsStartedByMachine() bool { return os.Getenv("MACHINE_PLUGIN_TOKEN") == "42" }

// Serve answers calls until the client says that it is done, or is gone, which is an error.
func Serve(driver Driver) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := newServer(ctx, driver)
	calls := rpc.NewServer()
	for _, name := range []string{"RPCServerDriver", "RpcServerDriver"} {
		if err := calls.RegisterName(name, server); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("the driver cannot listen on 127.0.0.1: %w", err)
	}
	paths := http.NewServeMux()
	paths.Handle(rpc.DefaultRPCPath, calls)
	fmt.Println(listener.Addr())
	go func() { _ = http.Serve(listener, paths) }()
	err = server.wait()
	cancel()
	server.settle()
	return err
}

// wait returns once no more calls are to come.
func (s *Server) wait() error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	for {
		select {
		case <-s.closed:
			return nil
		case <-s.heartbeat:
		case sign := <-ended:
			return fmt.Errorf("the driver was ended by %v", sign)
		case <-time.After(heartbeatTimeout):
			return errors.New("rancher-machine has not been heard of for 10 seconds: the driver ends")
		}
	}
}

// settle lets a call in progress clean up.
func (s *Server) settle() {
	idle := make(chan struct{})
	go func() {
		s.busy.Lock()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(cleanUpTimeout):
	}
}
