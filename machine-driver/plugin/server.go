package plugin

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

// State is the state of a machine, in libmachine's numbers.
type State int

// The states that this driver reports.
const (
	None State = iota
	Running
	Paused
	Saved
	Stopped
	Stopping
	Starting
	Error
)

// Driver is what the protocol asks of a driver. A context that ends has it finish early, and clean
// up what it was making.
type Driver interface {
	Name() string
	CreateFlags() []Flag
	Configure(options Options) error
	MarshalConfig() ([]byte, error)
	UnmarshalConfig(data []byte) error
	MachineName() string
	SSHKeyPath() string
	SSHPort() int
	SSHUsername() string

	PreCreateCheck(ctx context.Context) error
	Create(ctx context.Context) error
	Remove(ctx context.Context) error
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Restart(ctx context.Context) error
	Kill(ctx context.Context) error
	Upgrade(ctx context.Context) error

	State(ctx context.Context) (State, error)
	IP(ctx context.Context) (string, error)
	IPv6(ctx context.Context) (string, error)
	URL(ctx context.Context) (string, error)
}

// apiVersion is the version of the protocol that libmachine requires.
const apiVersion = 1

// Server has the methods that libmachine calls.
type Server struct {
	driver    Driver
	ctx       context.Context
	busy      sync.Mutex // one call at a time, but for those about the connection
	closed    chan struct{}
	heartbeat chan struct{}
	closing   sync.Once
}

func newServer(ctx context.Context, driver Driver) *Server {
	return &Server{
		driver:    driver,
		ctx:       ctx,
		closed:    make(chan struct{}),
		heartbeat: make(chan struct{}, 1),
	}
}

// guarded runs a call alone. A fault in the driver becomes an error of this call.
func (s *Server) guarded(call func() error) (err error) {
	s.busy.Lock()
	defer s.busy.Unlock()
	defer Caught(&err)
	return call()
}

// Caught is deferred by a function that gives an error: a panic in it becomes that error.
func Caught(err *error) {
	if fault := recover(); fault != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", fault, debug.Stack())
		*err = fmt.Errorf("the driver failed by a fault of its own: %v", fault)
	}
}

func (s *Server) text(reply *string, call func(context.Context) (string, error)) error {
	return s.guarded(func() (err error) {
		*reply, err = call(s.ctx)
		return err
	})
}

func (s *Server) action(call func(context.Context) error) error {
	return s.guarded(func() error { return call(s.ctx) })
}

// GetVersion gives the version of the protocol.
func (s *Server) GetVersion(_ *struct{}, reply *int) error {
	*reply = apiVersion
	return nil
}

// Heartbeat says that the client is still there.
func (s *Server) Heartbeat(_, _ *struct{}) error {
	select {
	case s.heartbeat <- struct{}{}:
	default: // one is known already
	}
	return nil
}

// Close ends the driver.
func (s *Server) Close(_, _ *struct{}) error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}

// GetCreateFlags gives the options.
func (s *Server) GetCreateFlags(_ *struct{}, reply *[]Flag) error {
	*reply = s.driver.CreateFlags()
	return nil
}

// SetConfigFromFlags takes the values of the options.
func (s *Server) SetConfigFromFlags(options *Options, _ *struct{}) error {
	return s.guarded(func() error {
		if *options == nil {
			return fmt.Errorf("no options were sent")
		}
		return s.driver.Configure(*options)
	})
}

// GetConfigRaw gives the configuration as JSON, which rancher-machine stores.
func (s *Server) GetConfigRaw(_ *struct{}, reply *[]byte) error {
	return s.guarded(func() (err error) {
		*reply, err = s.driver.MarshalConfig()
		return err
	})
}

// SetConfigRaw takes the configuration as it was stored.
func (s *Server) SetConfigRaw(data []byte, _ *struct{}) error {
	return s.guarded(func() error { return s.driver.UnmarshalConfig(data) })
}

// DriverName gives the name of the driver.
func (s *Server) DriverName(_ *struct{}, reply *string) error {
	*reply = s.driver.Name()
	return nil
}

// GetMachineName gives the name of the machine.
func (s *Server) GetMachineName(_ *struct{}, reply *string) error {
	return s.guarded(func() error { *reply = s.driver.MachineName(); return nil })
}

// GetIP gives the IPv4 address.
func (s *Server) GetIP(_ *struct{}, reply *string) error { return s.text(reply, s.driver.IP) }

// GetIPv6 gives the IPv6 address.
func (s *Server) GetIPv6(_ *struct{}, reply *string) error { return s.text(reply, s.driver.IPv6) }

// GetSSHHostname gives the address for SSH.
func (s *Server) GetSSHHostname(_ *struct{}, reply *string) error {
	return s.text(reply, s.driver.IP)
}

// GetSSHKeyPath gives the file of the private key.
func (s *Server) GetSSHKeyPath(_ *struct{}, reply *string) error {
	return s.guarded(func() error { *reply = s.driver.SSHKeyPath(); return nil })
}

// GetSSHPort gives the port for SSH.
func (s *Server) GetSSHPort(_ *struct{}, reply *int) error {
	return s.guarded(func() error { *reply = s.driver.SSHPort(); return nil })
}

// GetSSHUsername gives the user for SSH.
func (s *Server) GetSSHUsername(_ *struct{}, reply *string) error {
	return s.guarded(func() error { *reply = s.driver.SSHUsername(); return nil })
}

// GetURL gives the address of a container engine on the machine.
func (s *Server) GetURL(_ *struct{}, reply *string) error { return s.text(reply, s.driver.URL) }

// GetState gives the state of the machine.
func (s *Server) GetState(_ *struct{}, reply *State) error {
	return s.guarded(func() (err error) {
		*reply, err = s.driver.State(s.ctx)
		return err
	})
}

// PreCreateCheck says whether the machine can be made.
func (s *Server) PreCreateCheck(_, _ *struct{}) error { return s.action(s.driver.PreCreateCheck) }

// Create makes the machine.
func (s *Server) Create(_, _ *struct{}) error { return s.action(s.driver.Create) }

// Remove deletes the machine.
func (s *Server) Remove(_, _ *struct{}) error { return s.action(s.driver.Remove) }

// Start starts the machine.
func (s *Server) Start(_, _ *struct{}) error { return s.action(s.driver.Start) }

// Stop stops the machine.
func (s *Server) Stop(_, _ *struct{}) error { return s.action(s.driver.Stop) }

// Restart restarts the machine.
func (s *Server) Restart(_, _ *struct{}) error { return s.action(s.driver.Restart) }

// Kill stops the machine at once.
func (s *Server) Kill(_, _ *struct{}) error { return s.action(s.driver.Kill) }

// Upgrade makes the machine ready for an upgrade, which rancher-machine then does itself.
func (s *Server) Upgrade(_, _ *struct{}) error { return s.action(s.driver.Upgrade) }
