/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

const (
	// userAgent is what this package is called in the clusters' audit logs.
	userAgent = "helmop"
	// connectionQPS and connectionBurst bound the requests to one cluster, all of its releases together. A chart of
	// hundreds of objects needs the burst; API servers have their own fairness against the rest.
	connectionQPS   = 200
	connectionBurst = 400
	// coolDown is how long after its last action a connection keeps what it learned about the cluster's kinds, about half a
	// megabyte where no other cluster serves the same.
	coolDown = 5 * time.Minute
	// maxImpersonated bounds the users of one cluster whose connections are kept; they are cheap to make.
	maxImpersonated = 100
)

// cluster is what is kept about one cluster between actions. It is safe for concurrent use.
type cluster struct {
	identity [sha256.Size]byte
	// root is the path of the API server.
	root    string
	limiter flowcontrol.RateLimiter
	// bytes is what answers take their share of, as the owner.
	bytes *bytebudget.Budget
	owner bytebudget.Owner
	codec *recordCodec
	// payloads is that of sharedKnowledge.
	payloads *payloadMemory
	// observations are for the actions that follow.
	observations *observations
	// namespaces are those that were seen.
	namespaces *nameSet
	// own is the connection as the user of the config.
	own   *connection
	kinds *kinds

	mu      sync.Mutex
	cooling *time.Timer
	// impersonated holds the connections as other users.
	impersonated map[string]*connection
}

// connection is a way to a cluster as one user. Connections of one cluster share what is known of its kinds, the rate
// limit and, below the credentials, the network connections. It is safe for concurrent use.
type connection struct {
	*cluster
	host      rest.Config
	transport http.RoundTripper
	// core speaks protobuf, which has no base64 in it: records are large.
	core     corev1client.CoreV1Interface
	metadata metadata.Interface
	// user is who it is impersonated as, empty for nobody.
	user string
}

// newCluster returns what is kept about a cluster; it sends no request.
func newCluster(key string, config *rest.Config, shared sharedKnowledge) (*cluster, error) {
	copied := rest.CopyConfig(config)
	// The deadline of one request is the transport's; a client's timeout would cut watches too.
	copied.Timeout = 0
	copied.UserAgent = userAgent
	transport, err := rest.TransportFor(copied)
	if err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	c := &cluster{
		identity:     configIdentity(config),
		limiter:      flowcontrol.NewTokenBucketRateLimiter(connectionQPS, connectionBurst),
		bytes:        shared.bytes,
		owner:        ownerOf(key),
		codec:        shared.codec,
		payloads:     shared.payloads,
		observations: shared.observations,
		namespaces:   newNameSet(),
		impersonated: map[string]*connection{},
	}
	if address, err := url.Parse(config.Host); err == nil {
		c.root = strings.TrimSuffix(address.Path, "/")
	}
	// Everything about TLS and credentials is in the transport.
	c.own, err = newConnection(c, transport, rest.Config{
		Host:      config.Host,
		APIPath:   config.APIPath,
		UserAgent: userAgent,
		// The transport limits the rate, below what is answered without a request.
		RateLimiter:    flowcontrol.NewFakeAlwaysRateLimiter(),
		WarningHandler: rest.NoWarnings{},
	})
	if err != nil {
		return nil, err
	}
	if c.kinds, err = newKinds(c.own.host, c.bounded(context.Background(), transport), shared.library); err != nil {
		return nil, err
	}
	c.kinds.learned = c.keepWarm
	return c, nil
}

// ownerOf says for whom the answers of a cluster are read, given the Key of its [Target].
func ownerOf(key string) bytebudget.Owner {
	tenant, _, found := strings.Cut(key, "/")
	if !found {
		tenant = ""
	}
	return bytebudget.Owner{Tenant: tenant, Host: key}
}

func newConnection(c *cluster, transport http.RoundTripper, host rest.Config) (conn *connection, err error) {
	conn = &connection{cluster: c, host: host, transport: transport}
	own := conn.restConfig(context.Background())
	binary := rest.CopyConfig(own)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if conn.core, err = corev1client.NewForConfig(binary); err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	if conn.metadata, err = metadata.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	return conn, nil
}

// as returns the connection as a user, "" for the config's own.
func (c *cluster) as(user string) (*connection, error) {
	if user == "" {
		return c.own, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.impersonated[user]; ok {
		return conn, nil
	}
	// The first who sets the header decides: this one comes before one that the config may have.
	transport := clienttransport.NewImpersonatingRoundTripper(clienttransport.ImpersonationConfig{UserName: user}, c.own.transport)
	conn, err := newConnection(c, transport, c.own.host)
	if err != nil {
		return nil, err
	}
	conn.user = user
	if len(c.impersonated) >= maxImpersonated {
		clear(c.impersonated)
	}
	c.impersonated[user] = conn
	return conn, nil
}

// bounded puts the bounds of a cluster's requests around a transport; each request ends with ctx at the latest.
func (c *cluster) bounded(ctx context.Context, transport http.RoundTripper) *boundedTransport {
	return &boundedTransport{base: transport, parent: ctx, timeout: requestTimeout, limiter: c.limiter, bytes: c.bytes, owner: c.owner}
}

// restConfig returns a config for clients; each request made with it ends with ctx at the latest.
func (c *connection) restConfig(ctx context.Context) *rest.Config {
	config := c.host
	bounded := c.bounded(ctx, c.transport)
	bounded.kindsChanged = c.forgetKinds
	config.Transport = bounded
	return &config
}

// observationKey returns the key of a release.
func (c *connection) observationKey(namespace, name string) observationKey {
	return observationKey{cluster: c.identity, user: c.user, namespace: namespace, name: name}
}

// actionConfig is like restConfig, for the objects of one action: it does not ask twice in a row for the same object.
func (c *connection) actionConfig(ctx context.Context) *rest.Config {
	config := c.restConfig(ctx)
	config.Transport = newReadCache(&refusals{base: config.Transport}, c.root, c.namespaces)
	return config
}

// learnCapabilities returns what the cluster serves, not older than kindsTTL.
func (c *cluster) learnCapabilities(log action.DebugLog) (*chartutil.Capabilities, error) {
	known, err := c.kinds.current()
	if err != nil {
		return nil, err
	}
	if known.partial != nil {
		log("an API service of the cluster does not answer: %s", known.partial)
	}
	return known.capabilities.Copy(), nil
}

// forgetKinds makes the next action ask the cluster again what it serves.
func (c *cluster) forgetKinds() { c.kinds.expire() }

// keepWarm puts off the moment when what is known of the cluster's kinds is dropped.
func (c *cluster) keepWarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cooling == nil {
		c.cooling = time.AfterFunc(coolDown, c.kinds.drop)
		return
	}
	c.cooling.Reset(coolDown)
}

// close frees what the cluster holds. Requests under way go on.
func (c *cluster) close() {
	c.mu.Lock()
	if c.cooling != nil {
		c.cooling.Stop()
	}
	c.mu.Unlock()
	utilnet.CloseIdleConnectionsFor(c.own.transport)
}

// configIdentity tells configs of one cluster apart: by address, credentials and functions.
func configIdentity(config *rest.Config) [sha256.Size]byte {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q %q %q %q", config.Host, config.APIPath, config.Username, config.Password,
		config.BearerToken, config.BearerTokenFile)
	tls := config.TLSClientConfig
	fmt.Fprintf(hash, " %t %q %q %q %q %q %q %q %q", tls.Insecure, tls.ServerName, tls.CertFile, tls.KeyFile, tls.CAFile,
		tls.CertData, tls.KeyData, tls.CAData, tls.NextProtos)
	fmt.Fprintf(hash, " %q %q %q %q", config.Impersonate.UserName, config.Impersonate.UID, config.Impersonate.Groups,
		config.Impersonate.Extra)
	for _, function := range []any{config.Transport, config.WrapTransport, config.Dial, config.Proxy} {
		fmt.Fprintf(hash, " %x", functionPointer(function))
	}
	var identity [sha256.Size]byte
	hash.Sum(identity[:0])
	return identity
}

// functionPointer returns the address behind a function or pointer, zero for nil and everything else.
func functionPointer(value any) uintptr {
	reflected := reflect.ValueOf(value)
	switch reflected.Kind() {
	case reflect.Func, reflect.Pointer:
		return reflected.Pointer()
	default:
		return 0
	}
}
