// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
)

// maxStreams is the number of browser tabs that get live updates. A browser opens 6 connections to one server at most,
// and one connection must stay free for the pages.
const maxStreams = 4

// uiCommand is the command "ui".
type uiCommand struct {
	kube.Base
	allNamespaces bool
	port          int
	open          bool
}

func newUI(o kube.Options) *cobra.Command {
	u := &uiCommand{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page that shows the fleet, to the browser on this machine",
		Long: `Serve a page that shows the fleet, to the browser on this machine: HelmOps and Clusters as a matrix, rollouts
with what they wait for, Clusters and who holds their upgrades, releases, and versions. The page renews itself when the
fleet changes.

The page only reads, with your rights. It is served on 127.0.0.1 until Ctrl-C. The printed link opens it in one browser
and works once. Values and Secrets are never read.`,
		Example: `  # The HelmOps of this namespace
  kubectl helmop ui

  # All namespaces; open the browser, too
  kubectl helmop ui -A --open`,
		Args: kube.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
	}
	u.Add(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&u.allNamespaces, "all-namespaces", "A", false, "Show the HelmOps of all namespaces.")
	flags.IntVar(&u.port, "port", 0, "Port on 127.0.0.1 (default: a free one).")
	flags.BoolVar(&u.open, "open", false, "Open the link in the default browser.")
	return cmd
}

func (u *uiCommand) run(ctx context.Context) error {
	if u.port < 0 || u.port > 65535 {
		return kube.Usagef("--port %d is not a port; use 1 to 65535", u.port)
	}
	c, err := u.Connect()
	if err != nil {
		return err
	}
	scope := "namespace " + c.Namespace
	if u.allNamespaces {
		c.Namespace, scope = "", "all namespaces"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source := newFollowed(c)
	if err := source.start(ctx, cancel); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(u.port)))
	if err != nil {
		return kube.WithText(fmt.Sprintf("the page cannot be served: %v; set another --port", err), err)
	}
	page := ui.NewLocal(ui.New(ui.Options{Source: source, Base: "/", Scope: scope, Namespaces: u.allNamespaces,
		Program: u.Invocation(), MaxStreams: maxStreams, Now: u.Now}), listener.Addr().(*net.TCPAddr).Port)
	_, _ = fmt.Fprintf(u.Streams.Out, "The page is ready. This link opens it once:\n\n  %s\n\nCtrl-C ends the page.\n",
		page.Link())
	if u.open {
		if err := openBrowser(ctx, page.Link()); err != nil {
			u.Note("warning: the browser cannot be opened: %v; open the link yourself", err)
		}
	}
	return serve(ctx, listener, page)
}

// serve serves a handler until the context ends. It returns the cause of the end, unless a user interrupted the
// command.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		// The streams end when the command ends.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(listener)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// openBrowser opens a link with a program of the operating system. Other users of the machine may see the link in the
// list of processes, but the link works only once.
func openBrowser(ctx context.Context, link string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.CommandContext(ctx, "open", link).Start()
	case "windows":
		return exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", link).Start()
	default:
		return exec.CommandContext(ctx, "xdg-open", link).Start()
	}
}
