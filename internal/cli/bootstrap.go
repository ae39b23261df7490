// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// bootstrapOCI is the command "bootstrap oci".
type bootstrapOCI struct {
	registryFlags
	output
	pull             pullFlags
	kube             *genericclioptions.ConfigFlags
	url, clusterURL  string
	clusterPath      string
	kustomization    string
	image            string
	provider         string
	username         string
	password         string
	passwordStdin    bool
	interval         time.Duration
	intervalGiven    bool
	export, pushOnly bool
	suspend          bool
	allowEmptyState  bool
	sign             signFlags
	verifyKey        string
	streams          Streams
}

// bootstrapped is the result of "bootstrap oci".
type bootstrapped struct {
	// Provider and State are the artifacts.
	Provider bootstrapArtifact  `json:"provider"`
	State    *bootstrapArtifact `json:"clusterState,omitempty"`
	// Credential tells how the cluster pulls: Secret, Anonymous or the cloud's name.
	Credential string `json:"credential,omitempty"`
	// Objects are those in the management cluster.
	Objects []bootstrapObject `json:"objects,omitempty"`
}

type bootstrapArtifact struct {
	// Reference is the artifact by its digest; Tags are those that lead to it.
	Reference string   `json:"reference"`
	Tags      []string `json:"tags"`
	// Pushed tells whether anything was.
	Pushed bool `json:"pushed"`
	// Signature is the digest of the manifest of the signature; empty if nobody was to sign.
	Signature string `json:"signature,omitempty"`
}

type bootstrapObject struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name"`
	Outcome    bootstrap.Outcome `json:"outcome"`
}

func newBootstrap(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Install HelmOp in a management cluster so that it keeps itself and the cluster in step with a registry",
		Args:  exactArgs(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBootstrapOCI(streams))
	return cmd
}

func newBootstrapOCI(streams Streams) *cobra.Command {
	b := &bootstrapOCI{streams: streams, kube: newKubeFlags()}
	cmd := &cobra.Command{
		Use:   "oci --url oci://HOST/REPOSITORY:TAG --cluster-url oci://HOST/REPOSITORY:TAG",
		Short: "Keep HelmOp and the desired state of the management cluster in an OCI registry",
		Long: `Keep HelmOp and the desired state of the management cluster in an OCI registry.

The components of this version are pushed to --url, applied to the management cluster, and from then on updated from there by HelmOp itself.
What --cluster-path of the artifact at --cluster-url holds (namespaces, Clusters, HelmOps) is applied and pruned by HelmOp; an empty artifact
is pushed if there is none and the cluster has no state yet. To run it again, with the same flags and variables HELMOP_..., upgrades to this
version.

The credential for pushing (--username, or the Docker configuration) never gets into the cluster. What the cluster pulls with is
--pull-username, which must not be able to push, or nothing where anybody may pull.`,
		Example: `  kubectl helmop bootstrap oci --url oci://registry.example.com/helmop:production \
    --cluster-url oci://registry.example.com/fleet:production --cluster-path clusters/production \
    --pull-username fleet-reader --pull-password "$READ_TOKEN"`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	b.registryFlags.add(cmd.Flags())
	b.output.add(cmd.Flags())
	b.add(cmd.Flags())
	b.pull.add(cmd.Flags())
	b.sign.add(cmd.Flags())
	b.kube.AddFlags(cmd.Flags())
	return cmd
}

// newKubeFlags are kubectl's flags that say which cluster is meant, and as whom it is reached. What is made has its own namespace, and
// nothing is cached; --username and --password are those for the registry.
func newKubeFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.Namespace, flags.CacheDir = nil, nil
	return flags
}

func (b *bootstrapOCI) add(flags *pflag.FlagSet) {
	flags.StringVar(&b.url, "url", "", "Where the provider's components are kept, oci://HOST/REPOSITORY:TAG; the tag is moved with each update.")
	flags.StringVar(&b.clusterURL, "cluster-url", "", "Where the desired state of the management cluster is kept, oci://HOST/REPOSITORY:TAG.")
	flags.StringVar(&b.clusterPath, "cluster-path", "", "Folder of that artifact, \".\" for all of it; default: the one that the cluster has its state from, and all of it if there is none.")
	flags.StringVar(&b.kustomization, "kustomization", "", "Kustomization to apply to the components, which are "+bootstrap.ComponentsFile+" beside it.")
	flags.StringVar(&b.image, "image", "", "Image of the manager; default: that of this version.")
	flags.StringVar(&b.provider, "provider", "", "Cloud whose identity the manager pulls with instead of a credential: aws, azure or gcp.")
	flags.StringVarP(&b.username, "username", "u", "", "User name for pushing; default: the Docker configuration.")
	flags.StringVar(&b.password, "password", "", "Password for pushing.")
	flags.BoolVar(&b.passwordStdin, "password-stdin", false, "Read the password for pushing from standard input.")
	flags.DurationVar(&b.interval, "interval", time.Minute, "How often HelmOp looks whether the tags have moved; if not given, what the cluster has stays.")
	flags.StringVar(&b.verifyKey, "verify-key", "", "Public key of cosign: the cluster takes nothing that is not signed with its private key.")
	flags.BoolVar(&b.suspend, "suspend", false, "Suspend the HelmOp of the desired state, until the command runs without this flag: before a clusterctl move to this cluster.")
	flags.BoolVar(&b.allowEmptyState, "allow-empty-state", false,
		"Push an empty state where there is none even if the cluster has one: all that it has made is deleted then, Clusters included.")
	flags.BoolVar(&b.export, "export", false, "Print what would be applied, and touch neither the cluster nor the registry.")
	flags.BoolVar(&b.pushOnly, "push-only", false, "Push the components and leave the cluster to HelmOp: for upgrades from where there is no access to it.")
}

// bootstrapPlan is what the arguments come to.
type bootstrapPlan struct {
	provider, state location
	components      []*unstructured.Unstructured
	access          bootstrap.Access
	signer          *signer
	pull            known
	// path is the folder of the state.
	path string
}

func (b *bootstrapOCI) run(cmd *cobra.Command) error {
	b.intervalGiven = cmd.Flags().Changed("interval")
	plan, err := b.plan(cmd.Context())
	if err != nil {
		return err
	}
	ctx, cancel := b.bounded(cmd)
	defer cancel()
	if b.export {
		return b.print(plan)
	}
	result := &bootstrapped{}
	if err := b.push(ctx, plan, result); err != nil {
		return err
	}
	if !b.pushOnly {
		if err := b.install(ctx, plan, result); err != nil {
			return err
		}
	}
	return b.write(b.streams.Out, result, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, result.Provider.Reference)
		return err
	})
}

// plan reads the arguments and builds the components. It sends nothing.
func (b *bootstrapOCI) plan(ctx context.Context) (*bootstrapPlan, error) {
	plan := &bootstrapPlan{path: strings.Trim(path.Clean("/"+b.clusterPath), "/")}
	var err error
	if plan.provider, err = movingTag("--url", b.url); err != nil {
		return nil, err
	}
	if !b.pushOnly {
		if plan.state, err = movingTag("--cluster-url", b.clusterURL); err != nil {
			return nil, err
		}
	}
	if err := b.validate(); err != nil {
		return nil, err
	}
	if err := b.readPasswords(plan); err != nil {
		return nil, err
	}
	options := bootstrap.Options{Version: version.Version, Image: b.image, Variable: os.LookupEnv}
	if b.kustomization != "" {
		if options.Kustomization, err = readKustomization(b.kustomization); err != nil {
			return nil, err
		}
	}
	if plan.components, err = bootstrap.Components(options); err != nil {
		return nil, usageIf(err)
	}
	if plan.signer, err = b.sign.signer(b.streams); err != nil {
		return nil, err
	}
	if plan.pull, err = b.pull.credentials(ctx, plan.provider, plan.state); err != nil {
		return nil, err
	}
	return plan, b.planAccess(plan)
}

// planAccess tells how the cluster pulls, and what it trusts.
func (b *bootstrapOCI) planAccess(plan *bootstrapPlan) (err error) {
	plan.access = bootstrap.Access{
		PlainHTTP: b.plainHTTP, Provider: addonsv1.RegistryProvider(b.provider), Interval: b.interval, SuspendState: b.suspend,
	}
	if b.caFile != "" {
		if plan.access.CA, err = os.ReadFile(b.caFile); err != nil {
			return usageError{fmt.Errorf("--ca-file: %w", err)}
		}
	}
	if b.verifyKey != "" {
		if plan.access.VerifyKey, err = os.ReadFile(b.verifyKey); err == nil {
			_, err = cryptoutils.UnmarshalPEMToPublicKey(plan.access.VerifyKey)
		}
		if err != nil {
			return usageError{fmt.Errorf("--verify-key: %w", err)}
		}
	}
	if plan.pull != nil {
		plan.access.DockerConfig, err = plan.pull.dockerConfig()
	}
	return err
}

// readPasswords reads those that come by standard input, and has that for pushing used.
func (b *bootstrapOCI) readPasswords(plan *bootstrapPlan) (err error) {
	switch {
	case b.passwordStdin:
		b.password, err = readPassword(b.streams.In)
	case b.pull.stdin:
		b.pull.password, err = readPassword(b.streams.In)
	}
	if b.username != "" {
		b.as = only(b.username, b.password, plan.provider, plan.state).find
	}
	return err
}

// usageIf makes an error about what was given one about the arguments.
func usageIf(err error) error {
	if errors.Is(err, bootstrap.ErrInvalid) {
		return usageError{err}
	}
	return err
}

// movingTag reads a reference that must have a tag.
func movingTag(flag, text string) (location, error) {
	if text == "" {
		return location{}, usageError{fmt.Errorf("%s is missing", flag)}
	}
	l, err := parseLocation(text)
	if err != nil {
		return location{}, err
	}
	if l.ValidateReferenceAsTag() != nil {
		return location{}, usageError{fmt.Errorf("%s: %q needs a tag, and no digest: it is what moves", flag, text)}
	}
	return l, nil
}

// isCloud tells whether the manager pulls with an identity at a cloud.
func (b *bootstrapOCI) isCloud() bool {
	return b.provider != "" && b.provider != string(addonsv1.RegistryProviderGeneric)
}

// validate checks what belongs together.
func (b *bootstrapOCI) validate() error {
	isCloud := b.isCloud()
	switch {
	case b.export && b.pushOnly:
		return usageError{errors.New("--export and --push-only exclude each other")}
	case b.passwordStdin && b.pull.stdin:
		return usageError{errors.New("--password-stdin and --pull-password-stdin exclude each other: there is one standard input")}
	case (b.password != "" || b.passwordStdin) && b.username == "":
		return usageError{errors.New("--password without --username")}
	case b.username != "" && b.password == "" && !b.passwordStdin && !b.export:
		return usageError{errors.New("--username needs --password or --password-stdin")}
	case isCloud && !slices.Contains([]string{"aws", "azure", "gcp"}, b.provider):
		return usageError{fmt.Errorf("--provider %q is not known; there are aws, azure and gcp", b.provider)}
	case isCloud && b.pull.username+b.pull.config != "":
		return usageError{errors.New("--provider excludes --pull-username and --pull-registry-config")}
	case isCloud && b.plainHTTP:
		return usageError{errors.New("--provider and --plain-http exclude each other: the manager's identity is not sent in plain text")}
	case isCloud && b.caFile != "":
		return usageError{errors.New("--provider and --ca-file exclude each other: the manager's identity is not used with an authority of a HelmOp." +
			" Give authorities to the manager, in the ConfigMap helmop-registries, and to this command in SSL_CERT_FILE")}
	case b.interval < time.Second:
		return usageError{errors.New("--interval must be at least 1s")}
	}
	return errors.Join(b.pull.validate(), b.sign.validate(), b.output.validate())
}

// print writes all that would be applied.
func (b *bootstrapOCI) print(plan *bootstrapPlan) error {
	objects, err := plan.helmOps(nil)
	if err != nil {
		return err
	}
	text, err := bootstrap.YAML(append(bootstrap.Own(plan.components), objects...))
	if err != nil {
		return err
	}
	if b.verifyKey == "" {
		b.say("warning: without --verify-key, what is printed demands no signatures; applied to a cluster that demands them, it may drop the demand")
	}
	if b.clusterPath == "" {
		b.say("warning: without --cluster-path, what is printed takes all of the artifact; applied to a cluster that takes a folder of it, it may take the other folders, too")
	}
	_, err = b.streams.Out.Write(text)
	return err
}

// helmOps are the objects beside the components. The digests of what was pushed, by the names of the HelmOps, make these look at their
// tags at once.
func (p *bootstrapPlan) helmOps(digests map[string]string) ([]*unstructured.Unstructured, error) {
	provider := bootstrap.Artifact{URL: p.provider.name(), Tag: p.provider.Reference.Reference}
	state := bootstrap.Artifact{URL: p.state.name(), Tag: p.state.Reference.Reference, Path: p.path}
	objects, err := bootstrap.HelmOps(provider, state, p.access)
	for _, object := range objects {
		if digest, ok := digests[object.GetName()]; ok {
			object.SetAnnotations(map[string]string{addonsv1.ResolveRequestedAtAnnotation: digest})
		}
	}
	return objects, err
}

// install applies everything and waits for it.
func (b *bootstrapOCI) install(ctx context.Context, plan *bootstrapPlan, result *bootstrapped) error {
	applier, err := b.applier(result)
	if err != nil {
		return err
	}
	if err := applier.Check(ctx); err != nil {
		return err
	}
	components := bootstrap.Own(plan.components)
	b.say("installing the components of %s in namespace %s", version.Version, bootstrap.Namespace)
	if err := applier.Apply(ctx, components); err != nil {
		return err
	}
	b.say("waiting until they are ready")
	if err := applier.Wait(ctx, components); err != nil {
		return err
	}
	digests := map[string]string{
		bootstrap.ProviderHelmOp: digestOf(result.Provider.Reference), bootstrap.StateHelmOp: digestOf(result.State.Reference),
	}
	objects, err := plan.helmOps(digests)
	if err != nil {
		return err
	}
	if err := b.keepSource(ctx, applier, objects); err != nil {
		return err
	}
	b.say("creating what keeps them, and the cluster, in step with the registry")
	if err := applier.Apply(ctx, objects); err != nil {
		return err
	}
	b.say("waiting until HelmOp has taken over")
	for _, waits := range []struct{ helmOp, condition string }{
		{bootstrap.ProviderHelmOp, addonsv1.ReadyCondition},
		// What the state consists of may take hours: Clusters are made in it.
		{bootstrap.StateHelmOp, addonsv1.ReleasedCondition},
	} {
		err := applier.WaitFor(ctx, waits.helmOp, digests[waits.helmOp], waits.condition)
		if errors.Is(err, bootstrap.ErrPaused) {
			b.say("warning: %s: nothing is done for it", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// applier is the way to the management cluster. What it does is told in the result.
func (b *bootstrapOCI) applier(result *bootstrapped) (*bootstrap.Applier, error) {
	config, err := b.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the management cluster: %w", err)
	}
	config.UserAgent = "kubectl-helmop/" + version.Version
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cluster, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the management cluster: %w", err)
	}
	return &bootstrap.Applier{Client: cluster, Tell: func(object client.Object, outcome bootstrap.Outcome) {
		b.say("  %s %s", bootstrap.Title(object), outcome)
		version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		result.Objects = append(result.Objects, bootstrapObject{
			APIVersion: version, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Outcome: outcome,
		})
	}}, nil
}

// say tells of progress.
func (b *bootstrapOCI) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.streams.ErrOut, format+"\n", args...)
}
