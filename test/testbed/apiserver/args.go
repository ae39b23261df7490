// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// Files of the work folder.
const (
	auditLogFile    = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
	caFile          = "ca.crt"
	servingCertFile = "apiserver.crt"
	servingKeyFile  = "apiserver.key"
	saPrivateFile   = "service-account.key"
	saPublicFile    = "service-account.pub"
	stagesFile      = "kwok-stages.yaml"
	kubeletCertFile = "kubelet.crt"
	kubeletKeyFile  = "kubelet.key"
)

// brokenPods has the behaviour of Pods with the label testbed.helmop/pod: one that fails, for example.
//
//go:embed stages/*.yaml
var brokenPods embed.FS

// auditPolicy logs the user and the request, without bodies. A watch is logged when it starts and when it ends;
// Requests counts each watch once. Requests of the API server to itself are not logged.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*"]
- level: Metadata
`

// lazyCollection is the default of Options.GCPercent: the heaps of the programs grow to three times of the live data,
// not to twice, as by Go's default. Many programs share few cores; each server takes some 100 MB more memory. With four
// times of the live data, twenty servers took 17 GB.
const lazyCollection = 200

// etcdArgs returns the flags of etcd. They sacrifice durability for speed, because the data is deleted with the test.
// With the short election timeout, a single member starts at once. A shorter heartbeat would take 1 % of a core for
// each idle etcd.
func etcdArgs(dataDir string, clientPort, peerPort int) []string {
	client, peer := "http://"+process.Loopback(clientPort), "http://"+process.Loopback(peerPort)
	return []string{
		"--name=default",
		"--data-dir=" + dataDir,
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		"--heartbeat-interval=100",
		"--election-timeout=500",
		"--snapshot-count=10000",
		"--log-level=warn",
	}
}

func (s *Server) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=http://" + process.Loopback(s.etcdPort),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(s.port),
		"--cert-dir=" + s.file("generated"),
		"--tls-cert-file=" + s.file(servingCertFile),
		"--tls-private-key-file=" + s.file(servingKeyFile),
		"--client-ca-file=" + s.file(caFile),
		"--service-account-key-file=" + s.file(saPublicFile),
		"--service-account-signing-key-file=" + s.file(saPrivateFile),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// The Service "kubernetes" would point at loopback, which the API server refuses.
		"--endpoint-reconciler-type=none",
		"--audit-policy-file=" + s.file(auditPolicyFile),
		"--audit-log-path=" + s.file(auditLogFile),
		"--audit-log-maxsize=4096",
		"--profiling=false",
		// Tests do not flood a server. Without the limits, a server starts with a sixth less CPU time.
		"--enable-priority-and-fairness=false",
	}
	if !s.opts.Controllers {
		// Without the controller that creates default ServiceAccounts, this plugin would refuse every Pod.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, s.opts.Args...)
}

func (s *Server) controllersArgs(kubeconfig string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--controllers=" + strings.Join(s.opts.OnlyControllers, ",")}
}

func (s *Server) controllerManagerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--root-ca-file=" + s.file(caFile),
		"--service-account-private-key-file=" + s.file(saPrivateFile),
		"--profiling=false",
		// A machine that is busy for a minute must not lose simulated nodes: Pods on lost nodes never become ready again.
		"--node-monitor-grace-period=1h",
	}
}

func (s *Server) schedulerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=0",
		"--leader-elect=false",
		"--profiling=false",
	}
}

func (s *Server) kwokArgs(port int) func(kubeconfig string) []string {
	return func(kubeconfig string) []string {
		return []string{
			"--kubeconfig=" + kubeconfig,
			"--manage-all-nodes=true",
			"--server-address=" + process.Loopback(port),
			"--config=" + s.file(stagesFile),
		}
	}
}

// writeStages joins the stages of kwok and the stages of broken Pods into one configuration file. It uses the files
// whose names match a pattern. With the file, kwok does not read the user's own configuration.
func (s *Server) writeStages(pattern string) error {
	files, err := filepath.Glob(filepath.Join(s.opts.Binaries.KwokStages, pattern))
	if err != nil {
		return err
	}
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(append(all, "---\n"...), data...)
	}
	own, err := fs.Glob(brokenPods, "stages/"+pattern)
	if err != nil {
		return err
	}
	for _, file := range own {
		data, err := brokenPods.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(append(all, "---\n"...), data...)
	}
	return s.writeFiles(map[string][]byte{stagesFile: all})
}

// writeStaticFiles writes the files that do not change while the Server exists.
func (s *Server) writeStaticFiles() error {
	private, public, err := pki.SigningKey()
	if err != nil {
		return err
	}
	return s.writeFiles(map[string][]byte{
		auditPolicyFile: []byte(auditPolicy),
		saPrivateFile:   private,
		saPublicFile:    public,
	})
}

// newIdentity creates a certificate authority and the certificates that it signs.
func (s *Server) newIdentity() error {
	ca, err := pki.NewCA("helmop-testbed-" + s.opts.Name)
	if err != nil {
		return err
	}
	serving, err := ca.Server("kube-apiserver", "127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc",
		"10.96.0.1")
	if err != nil {
		return err
	}
	admin, err := ca.Client("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	s.ca, s.admin = ca, admin
	return s.writeFiles(map[string][]byte{
		caFile:          ca.PEM(),
		servingCertFile: serving.Cert,
		servingKeyFile:  serving.Key,
	})
}

func (s *Server) writeFiles(files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(s.file(name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
