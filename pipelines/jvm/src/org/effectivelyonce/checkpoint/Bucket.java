package org.effectivelyonce.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.ResponseInputStream;
import software.amazon.awssdk.core.exception.AbortedException;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.CommonPrefix;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * The few requests a checkpoint needs, on one bucket. Every failure is thrown as an {@link IOException} that names request and object.
 *
 * <p>Settings: {@code effectivelyonce.s3.endpoint}, {@code effectivelyonce.s3.access.key},
 * {@code effectivelyonce.s3.secret.key}; the bucket is the authority of the checkpoint's path.
 */
final class Bucket {
  record Entry(String name, boolean folder, long bytes, long modifiedMs) {}

  private interface Request<T> {
    T send();
  }

  // One client per endpoint and bucket: Spark makes a manager for every metadata log, and a client costs half a second.
  private static final Map<String, S3Client> CLIENTS = new ConcurrentHashMap<>();

  private final S3Client client;
  private final String name;

  private Bucket(S3Client client, String name) {
    this.client = client;
    this.name = name;
  }

  static Bucket of(Path root, Configuration conf) {
    String endpoint = required(conf, "effectivelyonce.s3.endpoint");
    S3Client client = CLIENTS.computeIfAbsent(endpoint, made -> S3Client.builder()
        .endpointOverride(URI.create(endpoint))
        .region(Region.US_EAST_1)
        .forcePathStyle(true)
        .httpClientBuilder(ApacheHttpClient.builder())
        .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create(
            required(conf, "effectivelyonce.s3.access.key"), required(conf, "effectivelyonce.s3.secret.key"))))
        .build());
    return new Bucket(client, root.toUri().getAuthority());
  }

  private static String required(Configuration conf, String setting) {
    String value = conf.get(setting);
    if (value == null || value.isEmpty()) {
      throw new IllegalArgumentException("setting spark.hadoop." + setting + " is missing: checkpoints need it");
    }
    return value;
  }

  /** The object from a position on; null when there is none. */
  ResponseInputStream<GetObjectResponse> stream(String key, long from) {
    return asking("GET", key, () -> {
      try {
        return client.getObject(r -> r.bucket(name).key(key).range(from > 0 ? "bytes=" + from + "-" : null));
      } catch (NoSuchKeyException none) {
        return null;
      }
    });
  }

  /** An object for reading: a small one is taken into memory, a large one comes as it is read. */
  FSDataInputStream opened(Path path) {
    ResponseInputStream<GetObjectResponse> stream = stream(key(path), 0);
    if (stream == null) {
      throw Unchecked.<RuntimeException>thrown(new FileNotFoundException("checkpoint object " + path + " does not exist"));
    }
    if (stream.response().contentLength() > Draft.IN_MEMORY_BYTES) {
      return new FSDataInputStream(new SeekableObject(this, key(path), stream));
    }
    try (stream) {
      return new FSDataInputStream(new SeekableBytes(stream.readAllBytes()));
    } catch (IOException failure) {
      throw Unchecked.<RuntimeException>thrown(new IOException(
          "object store: GET of " + name + "/" + key(path) + " failed: " + failure.getMessage(), failure));
    }
  }

  /** Bytes of an object; null when there is none. */
  Long size(String key) {
    return asking("HEAD", key, () -> {
      try {
        return client.headObject(r -> r.bucket(name).key(key)).contentLength();
      } catch (NoSuchKeyException none) {
        return null;
      }
    });
  }

  void putFile(String key, java.nio.file.Path file) {
    put(key, RequestBody.fromFile(file));
  }

  /**
   * Makes a file visible, in one request, and discards the draft.
   *
   * <p>A retried request meets its own first attempt: equal content is our own success, anything else is another writer's.
   */
  void written(Path path, Draft draft, boolean overwrite) throws IOException {
    try {
      draft.flush();
      if (overwrite) {
        put(key(path), draft.body());
      } else if (!putIfAbsent(key(path), draft.body()) && !draft.equalTo(opened(path))) {
        throw new FileAlreadyExistsException(
            "checkpoint object " + path + " was written by another driver: two drivers share this checkpoint");
      }
    } finally {
      draft.discard();
    }
  }

  private void put(String key, RequestBody body) {
    asking("PUT", key, () -> client.putObject(r -> r.bucket(name).key(key), body));
  }

  /** False when an object of that name is there already. */
  private boolean putIfAbsent(String key, RequestBody body) {
    return asking("conditional PUT", key, () -> {
      try {
        client.putObject(r -> r.bucket(name).key(key).ifNoneMatch("*"), body);
        return true;
      } catch (S3Exception refused) {
        if (refused.statusCode() == 412) {
          return false;
        }
        throw refused;
      }
    });
  }

  /** What lies directly below a prefix that ends in a slash: objects and folders. */
  List<Entry> children(String prefix) {
    return asking("LIST", prefix, () -> {
      List<Entry> found = new ArrayList<>();
      for (ListObjectsV2Response page : client.listObjectsV2Paginator(r -> r.bucket(name).prefix(prefix).delimiter("/"))) {
        for (S3Object object : page.contents()) {
          found.add(new Entry(object.key().substring(prefix.length()), false, object.size(), object.lastModified().toEpochMilli()));
        }
        for (CommonPrefix folder : page.commonPrefixes()) {
          String inner = folder.prefix().substring(prefix.length());
          found.add(new Entry(inner.substring(0, inner.length() - 1), true, 0, 0));
        }
      }
      return found;
    });
  }

  /** Deletes the object and everything below it; nothing there is no error. */
  void deleteAll(String key) {
    asking("DELETE", key, () -> {
      client.deleteObject(r -> r.bucket(name).key(key));
      client.listObjectsV2Paginator(r -> r.bucket(name).prefix(key + "/")).contents()
          .forEach(object -> client.deleteObject(r -> r.bucket(name).key(object.key())));
      return null;
    });
  }

  static String key(Path path) {
    String whole = path.toUri().getPath();
    return whole.startsWith("/") ? whole.substring(1) : whole;
  }

  static FileStatus status(Path folder, Entry entry) {
    return new FileStatus(entry.bytes(), entry.folder(), 1, 1L << 20, entry.modifiedMs(), new Path(folder, entry.name()));
  }

  private <T> T asking(String verb, String key, Request<T> request) {
    try {
      return request.send();
    } catch (AbortedException interrupted) {
      // The query is being stopped. Under this name Spark takes it as that, not as a failure of the query.
      throw Unchecked.<RuntimeException>thrown(
          new InterruptedIOException("object store: " + verb + " of " + name + "/" + key + " was interrupted"));
    } catch (SdkException failure) {
      throw Unchecked.<RuntimeException>thrown(new IOException(
          "object store: " + verb + " of " + name + "/" + key + " failed: " + failure.getMessage(), failure));
    }
  }
}
