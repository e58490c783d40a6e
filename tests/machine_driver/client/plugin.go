package main

import (
	"bufio"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	heartbeatInterval = 5 * time.Second
	addressTimeout    = 10 * time.Second
)

// plugin is a driver that runs, as libmachine starts and calls one.
type plugin struct {
	command *exec.Cmd
	calls   *rpc.Client
	done    chan struct{}
	read    sync.WaitGroup

	mutex sync.Mutex
	names []string // of the calls, in their order
	out   []string // what the driver printed
}

// start runs a driver with the arguments of rancher-machine, and hands it a configuration.
func start(path string, arguments []string, config []byte) (*plugin, error) {
	p := &plugin{command: exec.Command(path, arguments...), done: make(chan struct{})}
	p.command.Env = append(os.Environ(), "MACHINE_PLUGIN_TOKEN=42", "MACHINE_PLUGIN_DRIVER_NAME=laneway")
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	address := make(chan string, 1)
	p.read.Add(1)
	go func() {
		defer p.read.Done()
		lines.Scan()
		address <- strings.TrimSpace(lines.Text())
		for lines.Scan() {
			p.mutex.Lock()
			p.out = append(p.out, lines.Text())
			p.mutex.Unlock()
		}
	}()
	select {
	case found := <-address:
		if p.calls, err = rpc.DialHTTP("tcp", found); err != nil {
			return nil, err
		}
	case <-time.After(addressTimeout):
		return nil, fmt.Errorf("the driver has printed no address")
	}
	var version int
	if err := p.call("GetVersion", struct{}{}, &version); err != nil {
		return nil, err
	}
	if version != 1 {
		return nil, fmt.Errorf("Driver binary uses an incompatible API version (%d)", version)
	}
	go p.beat()
	if err := p.call("SetConfigRaw", config, nil); err != nil {
		p.close()
		return nil, err
	}
	p.text("GetMachineName")
	return p, nil
}

func (p *plugin) beat() {
	for {
		select {
		case <-p.done:
			return
		case <-time.After(heartbeatInterval):
			if err := p.calls.Call("RPCServerDriver.Heartbeat", struct{}{}, nil); err != nil {
				return
			}
		}
	}
}

func (p *plugin) call(name string, argument, reply interface{}) error {
	p.mutex.Lock()
	p.names = append(p.names, name)
	p.mutex.Unlock()
	return p.calls.Call("RPCServerDriver."+name, argument, reply)
}

func (p *plugin) do(name string) error { return p.call(name, struct{}{}, nil) }

func (p *plugin) text(name string) (string, error) {
	var found string
	err := p.call(name, struct{}{}, &found)
	return found, err
}

func (p *plugin) state() (int, error) {
	var found int
	err := p.call("GetState", struct{}{}, &found)
	return found, err
}

func (p *plugin) flags() ([]flag, error) {
	var found []flag
	err := p.call("GetCreateFlags", struct{}{}, &found)
	return found, err
}

func (p *plugin) config() ([]byte, error) {
	var found []byte
	err := p.call("GetConfigRaw", struct{}{}, &found)
	return found, err
}

// close ends the driver in the way of libmachine, and says how it ended.
func (p *plugin) close() error {
	close(p.done)
	_ = p.do("Close")
	p.read.Wait()
	return p.command.Wait()
}
