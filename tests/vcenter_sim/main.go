// vcenter_sim is a vCenter for tests: the simulator of the govmomi library, as Debian packages it,
// and what that one leaves out of GPU passthrough. See README.md.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io/ioutil"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/vmware/govmomi/simulator"
)

// about is what is printed at the start, in one line.
type about struct {
	URL      string `json:"url"`
	Control  string `json:"control"`
	User     string `json:"user"`
	Password string `json:"password"`
	*identity
}

const greeting = `A simulated vCenter with GPUs is up.

  server      %s
  user        %s
  password    %s
  thumbprint  %s
  control     %s

Stop with Ctrl-C.
`

func main() {
	m := simulator.VPX()
	listen := flag.String("l", "127.0.0.1:0", "address to listen on; loopback only")
	control := flag.String("control", "127.0.0.1:0", "address of the control endpoint; loopback only")
	file := flag.String("inventory", "", "JSON file: GPUs of hosts, clusters, templates; see README.md")
	api := flag.String("api-version", "8.0.3.0", "API version to announce")
	hw := flag.String("hwversion", "vmx-17", "hardware version of the model's VMs")
	user := flag.String("user", "user", "who may log in")
	password := flag.String("password", "pass", "and with which password")
	seed := flag.String("seed", "", "the same seed makes the same certificate")
	greet := flag.Bool("greet", false, "say for people, not as JSON, how to reach it")
	verbose := flag.Bool("v", false, "print what the library has to say")
	flag.IntVar(&m.Cluster, "cluster", m.Cluster, "clusters")
	flag.IntVar(&m.ClusterHost, "host", m.ClusterHost, "hosts in each cluster")
	flag.IntVar(&m.Host, "standalone", m.Host, "hosts outside of clusters")
	flag.IntVar(&m.Machine, "vm", m.Machine, "VMs in each pool")
	flag.IntVar(&m.Datacenter, "datacenter", m.Datacenter, "datacenters")
	flag.Parse()
	if !*verbose {
		log.SetOutput(ioutil.Discard)
	}
	r, err := begin(m, *file, *api, *hw, url.UserPassword(*user, *password))
	if err == nil {
		err = r.listen(*listen, *control, *seed, *greet)
	}
	m.Remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// begin makes the model, and of it the vCenter that it is to be.
func begin(m *simulator.Model, file, api, hw string, user *url.Userinfo) (*rig, error) {
	in, err := readInventory(file)
	if err != nil {
		return nil, err
	}
	m.ServiceContent.About.ApiVersion = api // before the model is made: sessions are told it
	m.ServiceContent.About.Version = strings.Join(strings.SplitN(api+".0.0", ".", 4)[:3], ".")
	if err := m.Create(); err != nil {
		return nil, err
	}
	pc := &PropertyCollector{}
	pc.Self = m.ServiceContent.PropertyCollector
	simulator.Map.Put(pc)
	r := newRig(in, m.Service, api)
	if err := r.prepare(in, hw); err != nil {
		return nil, err
	}
	r.publishAll()
	for _, kind := range []string{"ComputeResource", "ClusterComputeResource"} {
		for _, e := range simulator.Map.All(kind) {
			ref := *computeResource(e).EnvironmentBrowser
			old := simulator.Map.Get(ref).(*simulator.EnvironmentBrowser)
			simulator.Map.Put(&envBrowser{*old, r})
		}
	}
	m.Service.TLS = new(tls.Config)
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: user}
	m.Service.NewServer() // registers the handlers; its own port is not used
	return r, nil
}

// listen serves until a signal ends it.
func (r *rig) listen(address, control, seed string, greet bool) error {
	who, err := newIdentity(seed)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	cln, err := net.Listen("tcp", control)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", r.svc.ServeMux)
	mux.HandleFunc("/sdk", r.sdk)
	conns := &connections{open: map[net.Conn]bool{}}
	vcenter := &http.Server{Handler: mux, ConnState: conns.follow, ErrorLog: log.New(ioutil.Discard, "", 0)}
	user := r.svc.Listen.User
	password, _ := user.Password()
	a := about{fmt.Sprintf("https://%s/sdk", ln.Addr()), fmt.Sprintf("http://%s", cln.Addr()),
		user.Username(), password, who}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	failed := make(chan error, 2)
	go func() {
		failed <- vcenter.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{who.certificate}}))
	}()
	go func() { failed <- http.Serve(cln, r.control(a, conns)) }()
	if greet {
		fmt.Printf(greeting, strings.TrimSuffix(strings.TrimPrefix(a.URL, "https://"), "/sdk"),
			a.User, a.Password, who.Thumbprint, a.Control)
	} else {
		_ = json.NewEncoder(os.Stdout).Encode(a)
	}
	select {
	case err := <-failed:
		return err
	case <-stop:
		_ = vcenter.Close()
		r.mu.Lock() // whatever is still at work is not to see how the model goes
		return nil
	}
}
