// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// startTimeout is the timeout for the start of one program. A start takes 3 s on an idle machine, and much longer when
// dozens of programs start at the same time on a small machine.
const startTimeout = 3 * time.Minute

// startAttempts is how often a start is tried, because another process may take the free port first.
const startAttempts = 3

// Options configure a Server.
type Options struct {
	// Name is used in certificates, kubeconfigs and errors. Default: "local".
	Name string
	// Dir is the Server's work folder for keys, logs and data. Required. The caller removes the folder after Stop.
	Dir string
	// Binaries are the programs to run. Required.
	Binaries *binaries.Set
	// Controllers runs the controllers that a cluster without nodes needs, such as the garbage collector and the
	// controllers of namespaces, ServiceAccounts, Deployments and DaemonSets.
	Controllers bool
	// OnlyControllers names the controllers that run, with their names in kube-controller-manager. Default: all. It has no
	// effect with KwokNodes.
	OnlyControllers []string
	// Objects exist from the start, see Server.Objects. Default: the objects that every API server creates.
	Objects Objects
	// KwokNodes is the number of simulated nodes, named node-0 and so on, on which Pods seem to run. A number above 0
	// runs kube-controller-manager with all its controllers, and kube-scheduler. It implies Controllers.
	KwokNodes int
	// Args are further flags of kube-apiserver.
	Args []string
	// GCPercent is GOGC of the programs: by how many percent a heap grows between two collections. A server with many
	// objects has gigabytes of live data. Default: 200.
	GCPercent int
}

// Server is a running control plane. Its methods may be called concurrently.
type Server struct {
	opts Options

	// mu guards all fields below: the programs that run and their identity.
	mu        sync.Mutex
	etcdPort  int
	port      int
	ca        *pki.CA
	admin     pki.Pair
	etcd      *process.Process
	apiserver *process.Process
	helpers   []*process.Process
	stopped   bool
	// saved are the objects at Save, by their keys in etcd. It is nil before Save. altered is set when the certificates or
	// the version of the API server have changed since Save. hung is set from Hang to Resume.
	saved         map[string]etcdPair
	altered, hung bool

	audit auditLog
}

// Start starts a control plane and returns when it is ready. On an error, no program keeps running.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Name == "" {
		opts.Name = "local"
	}
	opts.Controllers = opts.Controllers || opts.KwokNodes > 0
	s := &Server{opts: opts}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(ctx); err != nil {
		// The context may be the cause of the failure; the programs must be stopped in any case.
		return nil, errors.Join(fmt.Errorf("start the API server %s: %w", opts.Name, err), s.stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return err
	}
	if err := s.writeStaticFiles(); err != nil {
		return err
	}
	if err := s.newIdentity(); err != nil {
		return err
	}
	if err := s.startEtcd(ctx); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	if err := s.startOnFreePort(ctx); err != nil {
		return err
	}
	return s.startHelpers(ctx)
}

func (s *Server) startEtcd(ctx context.Context) error {
	var err error
	for range startAttempts {
		var ports []int
		if ports, err = process.FreePorts(2); err != nil {
			return err
		}
		s.etcdPort = ports[0]
		s.etcd, err = s.run(ctx, binaries.Etcd, etcdArgs(s.file("etcd"), ports[0], ports[1]),
			httpOK("http://"+process.Loopback(ports[0])+"/health"))
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *Server) startOnFreePort(ctx context.Context) error {
	var err error
	for range startAttempts {
		if s.port, err = process.FreePort(); err != nil {
			return err
		}
		if err = s.startAPIServer(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// run starts a program and waits until the program is healthy. It kills a program that does not become healthy.
func (s *Server) run(ctx context.Context, name string, args []string,
	healthy func(context.Context) error,
) (*process.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	env := []string{"GOGC=" + strconv.Itoa(cmp.Or(s.opts.GCPercent, lazyCollection))}
	if name == binaries.Kwok {
		// Two goroutines of kwok 0.8.0 write a map at its start without a lock. With one thread, they do not run at the same
		// time. Otherwise, Go ends the program now and then.
		env = append(env, "GOMAXPROCS=1")
	}
	p, err := process.Start(process.Spec{
		Name:    s.opts.Name + "/" + name,
		Path:    s.opts.Binaries.Path(name),
		Args:    args,
		Env:     env,
		LogFile: s.file(name + ".log"),
	})
	if err != nil {
		return nil, err
	}
	if err := p.WaitHealthy(ctx, healthy); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// file returns a path in the work folder.
func (s *Server) file(name string) string { return filepath.Join(s.opts.Dir, name) }

// Dir returns the work folder, see Options.
func (s *Server) Dir() string { return s.opts.Dir }

// Stop stops all programs and removes etcd's data. Logs stay. A second call returns no error.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop(ctx)
}

func (s *Server) stop(ctx context.Context) error {
	s.stopped = true
	err := s.stopHelpers(ctx)
	// etcd's data is deleted next, so there is no reason to wait for the long graceful shutdown of kube-apiserver.
	for _, p := range []*process.Process{s.apiserver, s.etcd} {
		if p != nil {
			err = errors.Join(err, p.Kill())
		}
	}
	// The preallocated files take 128 MB for each Server.
	return errors.Join(err, os.RemoveAll(s.file("etcd")))
}

// StopAPIServer stops kube-apiserver only, so that connections to it are refused.
func (s *Server) StopAPIServer(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apiserver == nil {
		return nil
	}
	// With watches open, a graceful shutdown takes up to a minute.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.apiserver.Stop(ctx)
}

// StartAPIServer starts kube-apiserver again, on the same port and with the same data, and returns when it is ready. If
// kube-apiserver runs, the call does nothing.
func (s *Server) StartAPIServer(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return fmt.Errorf("the API server %s was stopped and cannot be started again", s.opts.Name)
	}
	if s.apiserver != nil && s.apiserver.Running() {
		return nil
	}
	return s.startAPIServer(ctx)
}

// Hang freezes kube-apiserver: it accepts connections and never answers.
func (s *Server) Hang() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = true
	return s.apiserver.Hang()
}

// Resume undoes Hang.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.apiserver.Resume(); err != nil {
		return err
	}
	s.hung = false
	return nil
}

// freeze stops the execution of a Server that has no clients, so that it takes no CPU time until thaw.
func (s *Server) freeze() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.apiserver.Hang(), s.etcd.Hang())
}

// thaw undoes freeze, and returns when the API server answers. The audit log is empty afterwards.
func (s *Server) thaw(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.etcd.Resume(), s.apiserver.Resume()); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = s.apiserver.WaitHealthy(ctx, func(ctx context.Context) error { return apiServerReady(ctx, client) })
	return errors.Join(err, s.forgetAudit())
}

// RotateOptions configure Rotate.
type RotateOptions struct {
	// NewPort moves the API server to another port, too.
	NewPort bool
}

// Rotate restarts the API server with a new certificate authority. Every kubeconfig and client certificate issued
// before becomes invalid. Data and service account keys stay.
func (s *Server) Rotate(ctx context.Context, opts RotateOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.altered = true
	if err := errors.Join(s.stopHelpers(ctx), s.apiserver.Kill()); err != nil {
		return err
	}
	if err := s.newIdentity(); err != nil {
		return err
	}
	start := s.startAPIServer
	if opts.NewPort {
		start = s.startOnFreePort
	}
	if err := start(ctx); err != nil {
		return err
	}
	return s.startHelpers(ctx)
}

// Upgrade restarts the API server with the kube-apiserver of another set, on the same port and with the same data. The
// other programs keep their versions. Kubernetes supports only upgrades by one minor version.
func (s *Server) Upgrade(ctx context.Context, set *binaries.Set) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.altered = true
	if s.stopped {
		return fmt.Errorf("the API server %s was stopped and cannot be upgraded", s.opts.Name)
	}
	if err := s.apiserver.Kill(); err != nil {
		return err
	}
	s.opts.Binaries = set
	return s.startAPIServer(ctx)
}

// PIDs returns the process ids of all running programs of this Server.
func (s *Server) PIDs() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pids []int
	for _, p := range append([]*process.Process{s.etcd, s.apiserver}, s.helpers...) {
		if p != nil && p.Running() {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// Version returns the version of Kubernetes, such as "v1.36.3".
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.Binaries.Version(binaries.KubeAPIServer)
}
