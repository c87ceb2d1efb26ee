package org.effectivelyonce.checkpoint;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import software.amazon.awssdk.core.sync.RequestBody;

/**
 * What is written to a file before it is closed: in memory while it is small, as logs are, else in a local temporary file, as
 * state may be of any size. One PUT takes up to 5 GiB; RocksDB's files are some 64 MB.
 */
final class Draft extends OutputStream {
  static final int IN_MEMORY_BYTES = 1 << 20;

  private ByteArrayOutputStream memory = new ByteArrayOutputStream();
  private Path file;
  private OutputStream spilled;

  @Override
  public void write(int one) throws IOException {
    room(1).write(one);
  }

  @Override
  public void write(byte[] bytes, int offset, int length) throws IOException {
    room(length).write(bytes, offset, length);
  }

  @Override
  public void flush() throws IOException {
    if (spilled != null) {
      spilled.flush();
    }
  }

  /** For a request that may be sent several times; everything is flushed before. */
  RequestBody body() {
    return file == null ? RequestBody.fromBytes(memory.toByteArray()) : RequestBody.fromFile(file);
  }

  boolean equalTo(InputStream other) throws IOException {
    try (InputStream ours = opened(); InputStream theirs = new BufferedInputStream(other)) {
      int one;
      do {
        one = ours.read();
        if (one != theirs.read()) {
          return false;
        }
      } while (one >= 0);
      return true;
    }
  }

  /** Nothing of it is left on disk; nothing can be written any more. */
  void discard() throws IOException {
    memory = null;
    if (spilled != null) {
      spilled.close();
      Files.deleteIfExists(file);
    }
  }

  private InputStream opened() throws IOException {
    return file == null ? new ByteArrayInputStream(memory.toByteArray()) : new BufferedInputStream(Files.newInputStream(file));
  }

  private OutputStream room(int more) throws IOException {
    if (memory == null && spilled == null) {
      throw new IOException("the file was cancelled or closed");
    }
    if (spilled == null && memory.size() + (long) more > IN_MEMORY_BYTES) {
      file = Files.createTempFile("checkpoint-", ".draft");
      spilled = new BufferedOutputStream(Files.newOutputStream(file), 1 << 16);
      memory.writeTo(spilled);
      memory = null;
    }
    return spilled == null ? memory : spilled;
  }
}
