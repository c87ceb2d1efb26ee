import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.EnumSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.effectivelyonce.ui.PasswordFilter;
import org.sparkproject.jetty.ee10.servlet.FilterHolder;
import org.sparkproject.jetty.ee10.servlet.ServletContextHandler;
import org.sparkproject.jetty.ee10.servlet.ServletHolder;
import org.sparkproject.jetty.server.Server;
import org.sparkproject.jetty.server.ServerConnector;

/** A page behind the filter, in the server that Spark's page has; prints its port and ends with its input. */
public final class GuardedPage {
  public static void main(String[] arguments) throws Exception {
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    ServletContextHandler pages = new ServletContextHandler();
    pages.addServlet(new ServletHolder(new Page()), "/*");
    FilterHolder filter = new FilterHolder(new PasswordFilter());
    filter.setInitParameter("file", arguments[0]);
    pages.addFilter(filter, "/*", EnumSet.allOf(DispatcherType.class));
    server.setHandler(pages);
    server.start();
    System.out.println(connector.getLocalPort());
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  /** Says how often it was reached: Spark's pages act, whether or not their answer is shown. */
  private static final class Page extends HttpServlet {
    private final AtomicInteger reached = new AtomicInteger();

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
      response.getWriter().print("what a job is made of, " + reached.incrementAndGet());
    }
  }
}
